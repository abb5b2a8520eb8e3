# SPDX-License-Identifier: Apache-2.0
# onchip_embed(target FILE.cu...): compiles each source's text into the target as
#   extern const std::string_view onchip::k<FileInCamelCase>Source;
# A line '#include "FILE"' is replaced by that file, its path from the including file's folder: NVRTC
# finds none.
# The file runs itself as a script at build time, so an edited kernel is embedded anew.
cmake_minimum_required(VERSION 3.24)

if(CMAKE_SCRIPT_MODE_FILE)  # cmake -DINPUT=... -DOUTPUT=... -DSYMBOL=... -P embed.cmake
  file(READ "${INPUT}" text)
  get_filename_component(folder "${INPUT}" DIRECTORY)
  while(text MATCHES "#include \"([a-z_./]+)\"\n")
    set(name "${CMAKE_MATCH_1}")
    file(READ "${folder}/${name}" included)
    get_filename_component(from "${name}" DIRECTORY)
    if(from)  # its own includes lie beside it
      string(REPLACE "\n#include \"" "\n#include \"${from}/" included "${included}")
    endif()
    string(REPLACE "#include \"${name}\"\n" "${included}" text "${text}")
  endwhile()
  set(pieces "")
  string(LENGTH "${text}" left)
  while(left GREATER 0)
    # Compilers may refuse literals over 16 KB; cut after a line, so that no character is cut.
    set(cut ${left})
    if(left GREATER 15000)
      string(SUBSTRING "${text}" 0 15000 head)
      string(FIND "${head}" "\n" cut REVERSE)
      math(EXPR cut "${cut} + 1")
    endif()
    string(SUBSTRING "${text}" 0 ${cut} head)
    string(SUBSTRING "${text}" ${cut} -1 text)
    string(LENGTH "${text}" left)
    string(APPEND pieces "\n    R\"embedded(${head})embedded\"")
  endwhile()
  file(WRITE "${OUTPUT}" "// Generated from a kernel's source; do not edit.\n"
    "#include \"kernels/runtime/sources.hpp\"\n\n"
    "namespace onchip {\n"
    "extern const std::string_view ${SYMBOL};\n"
    "constinit const std::string_view ${SYMBOL} =${pieces};\n"
    "}  // namespace onchip\n")
  return()
endif()

set(ONCHIP_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(onchip_embed target)
  foreach(file IN LISTS ARGN)
    get_filename_component(input "${file}" ABSOLUTE)
    get_filename_component(stem "${file}" NAME_WE)
    get_filename_component(folder "${input}" DIRECTORY)
    file(GLOB includes CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*/*.cuh"
         "${CMAKE_CURRENT_SOURCE_DIR}/*/*/*.cuh")
    set(symbol "k")
    string(REPLACE "_" ";" words "${stem}")
    foreach(word IN LISTS words)
      string(SUBSTRING "${word}" 0 1 initial)
      string(SUBSTRING "${word}" 1 -1 rest)
      string(TOUPPER "${initial}" initial)
      string(APPEND symbol "${initial}${rest}")
    endforeach()
    string(APPEND symbol "Source")
    set(output "${CMAKE_CURRENT_BINARY_DIR}/${stem}_source.cpp")
    add_custom_command(
      OUTPUT "${output}"
      COMMAND "${CMAKE_COMMAND}" "-DINPUT=${input}" "-DOUTPUT=${output}" "-DSYMBOL=${symbol}" -P
              "${ONCHIP_EMBED_SCRIPT}"
      DEPENDS "${input}" ${includes} "${ONCHIP_EMBED_SCRIPT}"
      COMMENT "Embedding ${file}"
      VERBATIM)
    target_sources(${target} PRIVATE "${output}")
  endforeach()
endfunction()
