# SPDX-License-Identifier: Apache-2.0
# onchip_embed(target FILE.cu...): compiles each source's text into the target as
#   extern const std::string_view onchip::k<FileInCamelCase>Source;
# NVRTC finds no files: a line '#include "FILE"', its path from the repository's root, is replaced by that file where it
# is first included, and goes where it was included before. What a branch of a conditional includes, it includes for
# itself only.
# The file runs itself as a script at build time, so an edited kernel is embedded anew.
cmake_minimum_required(VERSION 3.24)

if(CMAKE_SCRIPT_MODE_FILE)  # cmake -DROOT=... -DINPUT=... -DOUTPUT=... -DSYMBOL=... -P embed.cmake
  file(READ "${INPUT}" rest)
  set(text "")
  set(depth 0)  # of conditionals
  set(included_0 "")
  set(dependencies "${INPUT}")
  while(rest MATCHES "(^|\n)(#include \"([a-z0-9_./]+)\"( *//[^\n]*)?|#pragma once|#if|#el|#endif)")
    set(found "${CMAKE_MATCH_0}")
    set(directive "${CMAKE_MATCH_2}")
    set(name "${CMAKE_MATCH_3}")
    string(FIND "${rest}" "${found}" at)
    string(LENGTH "${found}" length)
    math(EXPR behind "${at} + ${length}")
    string(SUBSTRING "${rest}" 0 ${at} before)
    string(SUBSTRING "${rest}" ${behind} -1 rest)
    string(APPEND text "${before}")
    if(directive MATCHES "^#include")
      if(NOT name IN_LIST included_${depth})
        list(APPEND included_${depth} "${name}")
        list(APPEND dependencies "${ROOT}/${name}")
        file(READ "${ROOT}/${name}" included)
        string(REGEX REPLACE "\n$" "" included "${included}")
        set(rest "\n${included}${rest}")
      endif()
    elseif(NOT directive STREQUAL "#pragma once")
      string(APPEND text "${found}")
      if(directive STREQUAL "#endif")
        math(EXPR depth "${depth} - 1")
      else()
        if(directive STREQUAL "#if")
          math(EXPR depth "${depth} + 1")
        endif()
        math(EXPR around "${depth} - 1")
        set(included_${depth} "${included_${around}}")
      endif()
    endif()
  endwhile()
  string(APPEND text "${rest}")

  list(REMOVE_DUPLICATES dependencies)
  list(JOIN dependencies " " dependencies)
  file(WRITE "${OUTPUT}.d" "${OUTPUT}: ${dependencies}\n")
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
      COMMAND "${CMAKE_COMMAND}" "-DROOT=${PROJECT_SOURCE_DIR}" "-DINPUT=${input}" "-DOUTPUT=${output}"
              "-DSYMBOL=${symbol}" -P "${ONCHIP_EMBED_SCRIPT}"
      DEPENDS "${input}" "${ONCHIP_EMBED_SCRIPT}"
      DEPFILE "${output}.d"
      COMMENT "Embedding ${file}"
      VERBATIM)
    target_sources(${target} PRIVATE "${output}")
  endforeach()
endfunction()
