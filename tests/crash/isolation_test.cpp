#include "isolation.hpp"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "oncebox/testing/temporary_folder.hpp"
#include "small_disk.hpp"

namespace oncebox::crash {
namespace {

/// Whether `work`, in a process of its own, returned.
template <class Work>
bool returns_in_a_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

void require(bool is_so, const char* what) {
  if (!is_so) throw std::runtime_error(what);
}

bool is_small_disk(const std::string& folder) {
  struct statfs found = {};
  return statfs(folder.c_str(), &found) == 0 && found.f_type == TMPFS_MAGIC &&
         found.f_blocks * static_cast<std::size_t>(found.f_bsize) == std::size_t{1} << 20;
}

void mount_in_chroot(const std::string& root) {
  require(chroot(root.c_str()) == 0 && chdir("/disk") == 0, "chroot");
  workers::mount_small_disk("/disk", std::size_t{1} << 20);
  require(is_small_disk("/disk"), "the disk is not there");
  require(!is_small_disk("."), "the process is in another folder");
  require(access("/marker", F_OK) == 0, "the process has left its root");
}

TEST(Isolation, ADiskIsMountedInAChrootAndNotSeenOutside) {
  const testing::TemporaryFolder folder;
  const std::string root = folder.file("root");
  EXPECT_TRUE(returns_in_a_child([&] {
    for (const std::string& made : {root, root + "/proc", root + "/disk", root + "/marker"}) {
      require(mkdir(made.c_str(), 0700) == 0, "mkdir");
    }
    workers::isolate(workers::Isolation::mounts);
    // As on most machines: what is mounted in a copy of this mount shows up here.
    const std::string around = folder.file("");
    require(mount(around.c_str(), around.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
                mount("none", around.c_str(), nullptr, MS_SHARED, nullptr) == 0,
            "mount --make-shared");
    require(mount("/proc", (root + "/proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0,
            "mount --bind");
    require(returns_in_a_child([&] { mount_in_chroot(root); }), "it cannot be mounted");
    require(!is_small_disk(root + "/disk"), "the disk is seen outside");
  })) << "see what the process says above";
}

}  // namespace
}  // namespace oncebox::crash
