#include "guarded_selection.hpp"

#include <cmath>
#include <exception>
#include <utility>

#include "oncebox/engine/exception_text.hpp"

namespace oncebox::dispatcher {

GuardedSelection::GuardedSelection(std::unique_ptr<StoreSelection> below, Logger& logger)
    : below_(std::move(below)), logger_(logger) {}

std::optional<std::size_t> GuardedSelection::choose(std::span<const StoreCandidate> candidates) {
  try {
    return below_->choose(candidates);
  } catch (...) {
    note_failure();
  }
  return in_turn_->choose(candidates);
}

std::size_t GuardedSelection::share(std::size_t max_buffered, std::size_t stores) const {
  try {
    return below_->share(max_buffered, stores);
  } catch (...) {
    note_failure();
  }
  return max_buffered;
}

double GuardedSelection::place(std::string_view store, double served) {
  try {
    const double place = below_->place(store, served);
    if (!std::isnan(place)) return place;  // which has no place among others
  } catch (...) {
    note_failure();
  }
  return served;
}

void GuardedSelection::note_failure() const noexcept {
  if (std::exchange(has_failed_, true)) return;
  logger_.log(LogLevel::error, "the selection of stores failed, they take turns meanwhile",
              {{"reason", detail::current_exception_text()}});
}

}  // namespace oncebox::dispatcher
