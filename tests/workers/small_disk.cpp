#include "small_disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "isolation.hpp"

namespace oncebox::workers {

void mount_small_disk(const std::string& folder, std::size_t bytes) {
  isolate(Isolation::mounts);
  const std::string size = fmt::format("size={}", bytes);
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) {
    throw std::runtime_error("mount -t tmpfs: " + std::generic_category().message(errno));
  }
}

void write_file(const std::string& path, std::size_t bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("cannot create " + path);
  const std::string piece(4'096, 'x');
  while (bytes > 0) {
    const ssize_t written = write(file, piece.data(), std::min(bytes, piece.size()));
    if (written <= 0) break;
    bytes -= static_cast<std::size_t>(written);
  }
  close(file);
}

}  // namespace oncebox::workers
