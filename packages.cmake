# SPDX-License-Identifier: Apache-2.0
# cpack, in a build folder: the Debian packages onchip, libonchip<SOVERSION> and libonchip-dev. Of a shared library Debian
# wants a package of its own, named for its version. muParser is a package there, and not copied along.
if(CPACK_TEMPORARY_DIRECTORY)  # cpack runs this file, too, before it makes packages of what it has installed
  set(years 2026)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  foreach(component command library development)
    string(TOUPPER ${component} upper)
    set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component})
    set(doc ${root}/usr/share/doc/${name})
    file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: onchip

Files: *
Copyright: ${years} onchip maintainers
License: Apache-2.0
 On Debian systems the whole text is in /usr/share/common-licenses/Apache-2.0.
")
    file(WRITE ${doc}/changelog "onchip (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Changes are listed in CHANGELOG.md of the sources.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
    file(GLOB texts ${doc}/changelog ${root}/usr/share/man/man1/*.1)
    execute_process(COMMAND gzip -9n ${texts} COMMAND_ERROR_IS_FATAL ANY)
    file(GLOB programs ${root}/usr/bin/onchip ${root}/usr/lib/libonchip.so.*.*)
    foreach(program ${programs})
      file(RPATH_REMOVE FILE ${program})
    endforeach()
  endforeach()
  return()
endif()

get_target_property(version onchip_c SOVERSION)
set(CPACK_GENERATOR DEB)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CONTACT "onchip maintainers <maintainers@onchip.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_FILE})
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL command library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME onchip)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "python3:any")  # recipes and plots
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "sparse networks whose weights stay on a GPU's chip
The command predicts, plans, simulates and runs kernels of sparse recurrent
and feed-forward networks that keep their weights in registers and shared
memory. Answers need no GPU.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libonchip${version})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "onchip (= ${PROJECT_VERSION})")  # chips, and what is measured
file(CONFIGURE OUTPUT packages/shlibs CONTENT "libonchip ${version} libonchip${version} (>= ${PROJECT_VERSION})\n")
file(CONFIGURE OUTPUT packages/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/packages/shlibs ${CMAKE_BINARY_DIR}/packages/triggers)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "sparse networks whose weights stay on a GPU's chip - library
The C library asks the planner of the command onchip, and runs its kernels.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libonchip-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libonchip${version} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "sparse networks whose weights stay on a GPU's chip - header
The header of the C library of onchip, and its CMake package.")
include(CPack)
