#include "small_disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace oncebox::crash {

namespace {

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(
      fmt::format("{}: {}; this test mounts a small disk: run it as root, or allow user namespaces",
                  what, std::generic_category().message(errno)));
}

// An ordinary user becomes root in a namespace of his own, where he may mount.
void enter_user_namespace() {
  const auto user = getuid();
  const auto group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) fail("unshare");
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
}

}  // namespace

void mount_small_disk(const std::string& folder, std::size_t bytes) {
  if (unshare(CLONE_NEWNS) != 0) enter_user_namespace();
  // Else the mount would be seen outside.
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("mount --make-rprivate");
  const std::string size = fmt::format("size={}", bytes);
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) fail("mount -t tmpfs");
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

}  // namespace oncebox::crash
