#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "output.hpp"

namespace oncebox::app {

/// A line that tells how far a long command is, on a terminal; silent anywhere else.
class Progress {
 public:
  explicit Progress(Output& out) : out_(out), started_(Clock::now()) {}
  /// Removes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  struct State {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> total_bytes = {};  ///< unknown for a pipe
  };
  /// Drawn at most ten times a second.
  void show(const State& state);

 private:
  using Clock = std::chrono::steady_clock;

  Output& out_;
  Clock::time_point started_;
  std::optional<Clock::time_point> drawn_ = {};
};

}  // namespace oncebox::app
