include(GNUInstallDirs)

# Compiles every public header on its own; ./dev lint does.
if(PROJECT_IS_TOP_LEVEL AND ONCEBOX_SANITIZE STREQUAL "")
  add_custom_target(oncebox_verify_headers)
endif()

# oncebox_add_module(<name>
#   SOURCES <file>...          sources, listed one by one
#   [HEADERS <file>...]        public headers below include/
#   [INTERNAL_HEADERS <file>...] headers below internal/, for other modules and not installed
#   [PUBLIC_LINK <target>...]  what the public headers include
#   [PRIVATE_LINK <target>...] what only the sources include and a static consumer must link
#   [BUILD_LINK <target>...])  header-only libraries that only the sources include
#
# Adds the library oncebox_<name> with the alias oncebox::<name>, and installs and exports it.
function(oncebox_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" ""
    "SOURCES;HEADERS;INTERNAL_HEADERS;PUBLIC_LINK;PRIVATE_LINK;BUILD_LINK")
  _oncebox_require_parsed(oncebox_add_module "${arg_UNPARSED_ARGUMENTS}")

  set(target oncebox_${name})
  add_library(${target})
  add_library(oncebox::${name} ALIAS ${target})
  oncebox_target_defaults(${target})

  target_sources(${target}
    PRIVATE ${arg_SOURCES} ${arg_INTERNAL_HEADERS}
    PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
  target_include_directories(${target} PRIVATE src)
  if(arg_INTERNAL_HEADERS)
    target_include_directories(${target} PUBLIC
      "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/internal>")
  endif()
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC_LINK} PRIVATE ${arg_PRIVATE_LINK})
  foreach(library IN LISTS arg_BUILD_LINK)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${library}>)
  endforeach()
  if("fmt::fmt" IN_LIST arg_PRIVATE_LINK)
    oncebox_reuse_precompiled(${target} library)
  endif()
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(TARGET oncebox_verify_headers AND arg_HEADERS)
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
    add_dependencies(oncebox_verify_headers ${target}_verify_interface_header_sets)
  endif()

  if(ONCEBOX_INSTALL)
    install(TARGETS ${target} EXPORT oncebox-targets FILE_SET HEADERS)
    set_property(GLOBAL APPEND PROPERTY ONCEBOX_INSTALLED_MODULES ${name})
  endif()
endfunction()

# oncebox_add_codec(<name> HEADERS <file>... LIBRARY <target>)
#
# Adds oncebox::<name>: headers that make payloads by a library that the user has. It is linked
# where the user has found it, and neither the build nor the installed package asks for it.
function(oncebox_add_codec name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LIBRARY" "HEADERS")
  _oncebox_require_parsed(oncebox_add_codec "${arg_UNPARSED_ARGUMENTS}")
  set(target oncebox_${name})
  add_library(${target} INTERFACE)
  add_library(oncebox::${name} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
  target_link_libraries(${target}
    INTERFACE oncebox::core $<TARGET_NAME_IF_EXISTS:${arg_LIBRARY}>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  if(TARGET oncebox_verify_headers AND TARGET ${arg_LIBRARY})
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
    add_dependencies(oncebox_verify_headers ${target}_verify_interface_header_sets)
  endif()
  if(ONCEBOX_INSTALL)
    install(TARGETS ${target} EXPORT oncebox-targets FILE_SET HEADERS)
    set_property(GLOBAL APPEND PROPERTY ONCEBOX_INSTALLED_MODULES ${name})
  endif()
endfunction()

# oncebox_embed(<target> NAMESPACE <namespace> FILES <function> <file> [<function> <file>]...)
#
# Puts files into the library: each is what the function of that name and namespace,
# `std::string_view function() noexcept`, answers.
function(oncebox_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAMESPACE" "FILES")
  _oncebox_require_parsed(oncebox_embed "${arg_UNPARSED_ARGUMENTS}")
  set(script "${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake")
  while(arg_FILES)
    list(POP_FRONT arg_FILES function file)
    set(input "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    set(output "${CMAKE_CURRENT_BINARY_DIR}/embedded/${function}.cpp")
    add_custom_command(OUTPUT "${output}"
      COMMAND "${CMAKE_COMMAND}" -D "INPUT=${input}" -D "OUTPUT=${output}"
        -D "NAMESPACE=${arg_NAMESPACE}" -D "FUNCTION=${function}" -P "${script}"
      DEPENDS "${input}" "${script}"
      COMMENT "Embedding ${file}"
      VERBATIM)
    target_sources(${target} PRIVATE "${output}")
  endwhile()
endfunction()

function(_oncebox_require_parsed function unparsed)
  if(unparsed)
    message(FATAL_ERROR "${function}: unknown arguments: ${unparsed}")
  endif()
endfunction()
