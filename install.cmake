# SPDX-License-Identifier: Apache-2.0
# cmake --install: the program, the C API, and in share/onchip what they read and what users copy. Nothing of it knows
# where it is: the whole tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME command)
set(shells share)
if(SKBUILD)  # a wheel: where man and the shells look for it, and not within the Python package
  set(CMAKE_INSTALL_MANDIR ${SKBUILD_DATA_DIR}/share/man)
  set(shells ${SKBUILD_DATA_DIR}/share)
endif()

# muParser lies beside them: the program then runs where it is not installed. Debian has no archive of it.
set(libraries ${CMAKE_INSTALL_LIBDIR}/onchip)
file(RELATIVE_PATH from_program /${CMAKE_INSTALL_BINDIR} /${libraries})
set_target_properties(onchip PROPERTIES INSTALL_RPATH "$ORIGIN/${from_program}")
set_target_properties(onchip_c PROPERTIES INSTALL_RPATH "$ORIGIN/onchip")
install(FILES $<TARGET_FILE:muparser::muparser> DESTINATION ${libraries}
        RENAME $<TARGET_SONAME_FILE_NAME:muparser::muparser> COMPONENT bundled)
install(FILES /usr/share/doc/libmuparser-dev/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME muparser.copyright
        COMPONENT bundled OPTIONAL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT bundled)

install(TARGETS onchip)
install(TARGETS onchip_c EXPORT onchip COMPONENT library LIBRARY NAMELINK_COMPONENT development
        PUBLIC_HEADER COMPONENT development)
install(EXPORT onchip NAMESPACE onchip:: FILE onchip-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onchip
        COMPONENT development)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/onchip-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/onchip-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onchip
        COMPONENT development)

# What the command prints about itself: completion, and man pages where there is help2man.
set(text ${CMAKE_BINARY_DIR}/about)
set(pages)
foreach(file bash/onchip zsh/_onchip fish/onchip.fish)
  get_filename_component(shell ${file} DIRECTORY)
  add_custom_command(OUTPUT ${text}/${file} DEPENDS onchip VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${text}/${shell} COMMAND onchip completion ${shell} > ${text}/${file})
  list(APPEND pages ${text}/${file})
endforeach()
install(FILES ${text}/bash/onchip DESTINATION ${shells}/bash-completion/completions OPTIONAL)
install(FILES ${text}/zsh/_onchip DESTINATION ${shells}/zsh/site-functions OPTIONAL)
install(FILES ${text}/fish/onchip.fish DESTINATION ${shells}/fish/vendor_completions.d OPTIONAL)
find_program(ONCHIP_HELP2MAN help2man)
if(ONCHIP_HELP2MAN)
  set(writer ${PROJECT_SOURCE_DIR}/experiments/command/man_pages)
  add_custom_command(OUTPUT ${text}/man/onchip.1 DEPENDS onchip ${writer} VERBATIM
    COMMAND ${writer} $<TARGET_FILE:onchip> ${PROJECT_VERSION} ${text}/man)
  list(APPEND pages ${text}/man/onchip.1)
  install(DIRECTORY ${text}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
endif()
add_custom_target(about ALL DEPENDS ${pages})

install(DIRECTORY model/chips experiments/data experiments/recipes plots examples DESTINATION share/onchip
        USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE PATTERN pruned EXCLUDE)
