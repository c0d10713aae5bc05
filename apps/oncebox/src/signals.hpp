#pragma once

#include <initializer_list>
#include <memory>
#include <optional>

#include "oncebox/clock.hpp"

namespace oncebox::app {

/// Signals that are waited for instead of interrupting the program. To be made before any thread
/// is, so that all of them leave these signals alone. What was before comes back with the end of
/// this object.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> signals);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// The next signal; nothing when none came in this time.
  [[nodiscard]] std::optional<int> wait_for(Duration time);
  /// The next signal, whenever it comes.
  [[nodiscard]] int wait();

 private:
  struct Masks;
  std::unique_ptr<Masks> masks_;
};

}  // namespace oncebox::app
