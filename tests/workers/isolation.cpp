#include "isolation.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "oncebox/internal/descriptor.hpp"

namespace oncebox::workers {

namespace {

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format(
      "{}: {}; this test needs mounts or a network of its own: run it as root, or allow user "
      "namespaces",
      what, std::generic_category().message(errno)));
}

// A program that is started by an ordinary user has none of its maker's rights, unless they are
// ambient.
void let_children_inherit_rights() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, rights) != 0) fail("capget");
  for (auto& half : rights) half.inheritable = half.permitted;
  if (syscall(SYS_capset, &header, rights) != 0) fail("capset");
  // The last one is for the files that this process has open, under /proc.
  for (const int right : {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SYS_PTRACE}) {
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, right, 0, 0) != 0) fail("prctl");
  }
}

// There a user stays who he is, but may do what root may.
void enter_user_namespace() {
  const auto user = getuid();
  const auto group = getgid();
  if (unshare(CLONE_NEWUSER) != 0) fail("unshare");
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user << ' ' << user << " 1";
  std::ofstream("/proc/self/gid_map") << group << ' ' << group << " 1";
  let_children_inherit_rights();
}

// Else a mount would be seen outside. Only a mount point can be made private, and "/" is none in a
// chroot. Joining the namespace of its own takes this process to the real root for a moment.
void make_mounts_private() {
  const detail::Descriptor root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const detail::Descriptor folder(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const detail::Descriptor mounts(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  if (!root.is_open() || !folder.is_open() || !mounts.is_open()) fail("open");
  if (setns(mounts.get(), CLONE_NEWNS) != 0) fail("setns");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("mount --make-rprivate");
  if (fchdir(root.get()) != 0 || chroot(".") != 0 || fchdir(folder.get()) != 0) fail("chroot");
}

}  // namespace

void isolate(Isolation what) {
  const int flag = what == Isolation::mounts ? CLONE_NEWNS : CLONE_NEWNET;
  if (unshare(flag) != 0) {
    enter_user_namespace();
    if (unshare(flag) != 0) fail("unshare");
  }
  if (what == Isolation::mounts) make_mounts_private();
}

}  // namespace oncebox::workers
