#include "process_tree.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace oncebox::testing {

namespace {

using namespace std::chrono_literals;

struct ProcessState {
  char state = 0;  // as in proc(5): T is stopped (t under a tracer), Z has ended
  int parent = 0;
};

std::optional<ProcessState> state_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  // The second field is the name in parentheses, which may hold anything.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcessState found;
  fields >> found.state >> found.parent;
  return found;
}

std::vector<int> children_of(int pid) {
  std::vector<int> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    int child = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), child);
    if (error != std::errc{} || end != name.data() + name.size()) continue;
    const auto state = state_of(child);
    if (state && state->parent == pid) children.push_back(child);
  }
  return children;
}

bool is_stopped(int pid) {
  const auto state = state_of(pid);
  return !state || std::string_view("TtZ").find(state->state) != std::string_view::npos;
}

}  // namespace

bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

bool is_alive(int pid) {
  const auto state = state_of(pid);
  return state && state->state != 'Z';
}

std::vector<int> stop_with_children(int pid) {
  send({pid}, SIGSTOP);
  wait_until([pid] { return is_stopped(pid); }, 60s);
  std::vector<int> pids = children_of(pid);
  send(pids, SIGSTOP);
  wait_until([&pids] { return std::ranges::all_of(pids, is_stopped); }, 60s);
  pids.insert(pids.begin(), pid);
  return pids;
}

void send(const std::vector<int>& pids, int signal) {
  for (const int pid : pids) ::kill(pid, signal);
}

bool wait_until_gone(const std::vector<int>& pids, std::chrono::milliseconds time) {
  return wait_until([&pids] { return std::ranges::none_of(pids, is_alive); }, time);
}

}  // namespace oncebox::testing
