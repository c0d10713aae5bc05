#include "oncebox/publish/secret.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "oncebox/endpoint.hpp"
#include "oncebox/error.hpp"

namespace oncebox::publish {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

std::string read_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') {
    refuse(fmt::format("the environment variable {} is not set", name));
  }
  return value;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(fmt::format("the file {} of a secret cannot be read", path));
  std::string secret(Endpoint::kMaxTextBytes + 1, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  secret.resize(static_cast<std::size_t>(file.gcount()));
  if (secret.size() > Endpoint::kMaxTextBytes) {
    refuse(fmt::format("the file {} is too long for a secret", path));
  }
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  secret.erase(0, secret.find_first_not_of(" \t\r\n"));
  if (secret.empty()) refuse(fmt::format("the file {} of a secret is empty", path));
  return secret;
}

}  // namespace

std::string resolve_secret(std::string_view reference) {
  const std::size_t colon = reference.find(':');
  const std::string_view kind = reference.substr(0, colon);
  const std::string rest(colon == std::string_view::npos ? std::string_view()
                                                         : reference.substr(colon + 1));
  if (!rest.empty() && kind == "literal") return rest;
  if (!rest.empty() && kind == "file") return read_file(rest);
  if (!rest.empty() && kind == "env") return read_variable(rest);
  refuse("a secret is written as \"env:NAME\", \"file:PATH\" or \"literal:TEXT\"");
}

}  // namespace oncebox::publish
