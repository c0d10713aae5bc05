#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "failure.hpp"
#include "printable.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kMaxSecretBytes = 64 << 10;

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw Failure(ExitCode::no_input, fmt::format("{} cannot be read: {}", printable(path), why));
}

}  // namespace

std::string read_file(const std::string& path, std::size_t max_bytes) {
  const bool is_stdin = path == "-";
  const int descriptor = is_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse_file(path, std::strerror(errno));
  std::string content;
  std::string part(64 << 10, '\0');
  ssize_t count = 0;
  do {
    count = read(descriptor, part.data(), part.size());
    if (count > 0) content.append(part, 0, static_cast<std::size_t>(count));
  } while ((count > 0 && content.size() <= max_bytes) || (count < 0 && errno == EINTR));
  const int error = errno;
  if (!is_stdin) close(descriptor);
  if (count < 0) refuse_file(path, std::strerror(error));
  if (content.size() > max_bytes) {
    refuse_file(path, fmt::format("it has more than {} bytes", max_bytes));
  }
  return content;
}

std::string read_secret_file(const std::string& path) {
  // A file of that name, not standard input.
  std::string secret = read_file(path == "-" ? "./-" : path, kMaxSecretBytes);
  secret.erase(secret.find_last_not_of("\r\n") + 1);
  if (secret.empty()) refuse_file(path, "it is empty");
  return secret;
}

}  // namespace oncebox::app
