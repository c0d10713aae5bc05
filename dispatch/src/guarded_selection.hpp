#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "oncebox/dispatch/store_selection.hpp"
#include "oncebox/log.hpp"

namespace oncebox::dispatcher {

/// A strategy that somebody else wrote. What it throws is logged, the first time, and the store is
/// chosen in turn instead; otherwise the process would end with the thread that asks.
class GuardedSelection final : public StoreSelection {
 public:
  /// The logger is borrowed.
  GuardedSelection(std::unique_ptr<StoreSelection> below, Logger& logger);

  std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) override;
  [[nodiscard]] std::size_t share(std::size_t max_buffered, std::size_t stores) const override;
  double place(std::string_view store, double served) override;

 private:
  /// Of the exception that is being handled.
  void note_failure() const noexcept;

  const std::unique_ptr<StoreSelection> below_;
  Logger& logger_;
  const std::unique_ptr<StoreSelection> in_turn_ = round_robin();
  mutable bool has_failed_ = false;  // its users call a selection one thread at a time
};

}  // namespace oncebox::dispatcher
