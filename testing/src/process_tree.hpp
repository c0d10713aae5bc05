#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace oncebox::testing {

/// Asks again and again, a few milliseconds apart; whether it came true in time.
bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds time);

/// Whether there is such a process, other than one that has ended and waits to be fetched.
[[nodiscard]] bool is_alive(int pid);

/// A process and its children stop where they are. Answers all of them, the process first. It can
/// have no further ones then, since it is the first to stop.
std::vector<int> stop_with_children(int pid);

void send(const std::vector<int>& pids, int signal);

/// Whether all of them have ended within this time.
bool wait_until_gone(const std::vector<int>& pids, std::chrono::milliseconds time);

}  // namespace oncebox::testing
