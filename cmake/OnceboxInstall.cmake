include(CMakePackageConfigHelpers)

set(_oncebox_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/oncebox")
get_property(ONCEBOX_COMPONENTS GLOBAL PROPERTY ONCEBOX_INSTALLED_MODULES)
get_property(ONCEBOX_FIND_DEPENDENCIES GLOBAL PROPERTY ONCEBOX_FIND_DEPENDENCIES)

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/oncebox-config.cmake.in"
  "${PROJECT_BINARY_DIR}/oncebox-config.cmake"
  INSTALL_DESTINATION "${_oncebox_package_dir}"
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/oncebox-config-version.cmake"
  COMPATIBILITY SameMinorVersion)

install(EXPORT oncebox-targets
  NAMESPACE oncebox::
  DESTINATION "${_oncebox_package_dir}")
install(FILES
  "${PROJECT_BINARY_DIR}/oncebox-config.cmake"
  "${PROJECT_BINARY_DIR}/oncebox-config-version.cmake"
  DESTINATION "${_oncebox_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
