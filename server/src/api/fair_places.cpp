#include "api/fair_places.hpp"

#include <string_view>

namespace oncebox::server {

namespace {

/// Callers that hold no place are forgotten when there are about so many more than callers that do.
constexpr std::size_t kMaxIdleCallers = 64;

}  // namespace

void FairPlaces::Place::leave() noexcept {
  if (places_ != nullptr) std::exchange(places_, nullptr)->give_back(caller_);
}

FairPlaces::Place FairPlaces::take(const Request& request, std::size_t kept) {
  const Principal& principal = request.principal;
  // Nearly every call takes a place, so the name of a token is not copied.
  const std::string network = principal.is_anonymous() ? network_of(request.peer) : std::string();
  const std::string_view name = principal.is_anonymous() ? network : principal.name;

  const detail::Lock lock(mutex_);
  auto caller = callers_.find(name);
  const bool is_known = caller != callers_.end();
  const std::size_t held = is_known ? caller->second : 0;
  if (held + kept >= places_ - taken_) return {};
  if (!is_known) {
    if (callers_.size() > 2 * taken_ + kMaxIdleCallers) {
      std::erase_if(callers_, [](const auto& entry) { return entry.second == 0; });
    }
    caller = callers_.emplace(name, 0).first;
  }
  ++caller->second;
  ++taken_;
  return {*this, caller};
}

void FairPlaces::give_back(Callers::iterator caller) noexcept {
  const detail::Lock lock(mutex_);
  --caller->second;
  --taken_;
}

}  // namespace oncebox::server
