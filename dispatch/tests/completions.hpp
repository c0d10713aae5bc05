#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "oncebox/dispatch/async_handler.hpp"
#include "watched.hpp"

namespace oncebox {

/// Keeps completions until the test uses them.
class Completions {
 public:
  void take(Completion completion) {
    kept_.change([&](auto& all) { all.push_back(std::move(completion)); });
  }
  [[nodiscard]] bool wait_for(std::size_t count) const {
    return kept_.wait([&](const auto& all) { return all.size() >= count; });
  }
  [[nodiscard]] Completion next() {
    std::optional<Completion> first;
    kept_.change([&](auto& all) {
      first.emplace(std::move(all.front()));
      all.pop_front();
    });
    return std::move(*first);
  }

 private:
  Watched<std::deque<Completion>> kept_;
};

}  // namespace oncebox
