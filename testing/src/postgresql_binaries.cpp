#include "postgresql_binaries.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "oncebox/error.hpp"

namespace oncebox::testing {

namespace {

constexpr const char* kPackages = "/usr/lib/postgresql";

std::string newest_of_the_packages() {
  int newest = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kPackages, none)) {
    const std::string name = entry.path().filename();
    int major = 0;
    std::from_chars(name.data(), name.data() + name.size(), major);
    if (major > newest && std::filesystem::exists(entry.path() / "bin/initdb")) newest = major;
  }
  if (newest == 0) {
    throw Error(ErrorCode::not_found,
                "there is no PostgreSQL server here; install the package postgresql, or name the "
                "folder of its programs in ONCEBOX_POSTGRESQL_BIN");
  }
  return fmt::format("{}/{}/bin", kPackages, newest);
}

}  // namespace

std::string find_postgresql_binaries(const std::string& wanted) {
  std::string folder = wanted;
  if (folder.empty()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char* variable = std::getenv("ONCEBOX_POSTGRESQL_BIN");
    if (variable != nullptr) folder = variable;
  }
  if (folder.empty()) return newest_of_the_packages();
  if (!std::filesystem::exists(folder + "/initdb")) {
    throw Error(ErrorCode::not_found, "there is no PostgreSQL server in " + folder +
                                          ": it has no initdb; install the package postgresql, or "
                                          "name the folder of its programs");
  }
  return std::filesystem::canonical(folder);
}

std::string reachable_postgresql_binaries(const std::string& bin, const ServerFolder& folder) {
  if (bin.starts_with(kPackages)) return bin;
  if (folder.run({"test", "-x", bin + "/initdb"}).succeeded) return bin;
  const std::string copy = folder.file("programs");
  std::filesystem::copy(
      std::filesystem::path(bin).parent_path(), copy,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  give_to_server_user(copy);
  return copy + "/" + std::filesystem::path(bin).filename().string();
}

}  // namespace oncebox::testing
