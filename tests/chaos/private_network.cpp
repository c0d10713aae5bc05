#include "private_network.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <utility>

#include "isolation.hpp"
#include "oncebox/testing/child_process.hpp"

namespace oncebox::chaos {

namespace {

using workers::isolate;
using workers::Isolation;

void run(const std::vector<std::string>& command) {
  std::string reason;
  try {
    testing::ChildProcess process(command);
    const auto status = process.wait_for(std::chrono::seconds{60});
    if (status && testing::exited_well(*status)) return;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  throw std::runtime_error(
      fmt::format("{} failed: {}; this test needs the packages iproute2, nftables and util-linux",
                  fmt::join(command, " "), reason));
}

int current_network() {
  const int file = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (file < 0) throw std::runtime_error("cannot open /proc/self/ns/net");
  return file;
}

}  // namespace

PrivateNetwork::PrivateNetwork() {
  isolate(Isolation::network);
  here_ = current_network();
  isolate(Isolation::network);
  there_ = current_network();
  run({"ip", "link", "add", "server", "type", "veth", "peer", "name", "workers", "netns",
       fmt::format("/proc/{}/fd/{}", getpid(), here_)});
  run({"ip", "address", "add", "10.0.0.2/24", "dev", "server"});
  run({"ip", "link", "set", "server", "up"});
  if (setns(here_, CLONE_NEWNET) != 0) throw std::runtime_error("setns");
  run({"ip", "address", "add", "10.0.0.1/24", "dev", "workers"});
  run({"ip", "link", "set", "workers", "up"});
  run({"ip", "link", "set", "lo", "up"});
}

PrivateNetwork::~PrivateNetwork() {
  close(here_);
  close(there_);
}

std::string PrivateNetwork::address() const { return "10.0.0.1"; }
std::string PrivateNetwork::workers_network() const { return "10.0.0.0/24"; }

std::vector<std::string> PrivateNetwork::on_other_side() const {
  return {"nsenter", fmt::format("--net=/proc/{}/fd/{}", getpid(), there_), "--"};
}

void PrivateNetwork::on_both_sides(const std::vector<std::string>& command) const {
  run(command);
  std::vector<std::string> there = on_other_side();
  there.insert(there.end(), command.begin(), command.end());
  run(there);
}

void PrivateNetwork::cut(Cut how) {
  // At each side for what arrives there: so nobody is kept from sending.
  const char* const what = how == Cut::silently ? "drop" : "reject with tcp reset";
  on_both_sides({"nft", fmt::format("add table inet cut;"
                                    "add chain inet cut arriving "
                                    "{{ type filter hook input priority 0; }};"
                                    "add rule inet cut arriving iifname != \"lo\" "
                                    "meta l4proto tcp {}",
                                    what)});
}

void PrivateNetwork::heal() { on_both_sides({"nft", "delete table inet cut"}); }

}  // namespace oncebox::chaos
