#include "routes.hpp"

#include <algorithm>
#include <limits>

#include "middleware.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::dispatcher {

namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// Whether every topic that `inner` matches is matched by `outer` too.
bool covers(const TopicPattern& outer, const TopicPattern& inner) {
  if (outer.is_exact()) return inner.is_exact() && outer.stem() == inner.stem();
  return inner.stem().starts_with(outer.stem());
}

}  // namespace

void refuse_transactional(const Handlers& handlers) {
  for (const Handlers::Registration& registration : handlers.registrations()) {
    if (registration.transactional == nullptr) continue;
    throw Error(ErrorCode::unsupported,
                "the handler of " + registration.pattern.str() +
                    " wants a transaction, but this store has none; use SQLite or PostgreSQL");
  }
}

namespace {

// Before the middleware is around it.
bool is_publisher(const Handlers::Registration& registration) {
  return dynamic_cast<const PublishesMessages*>(registration.handler.get()) != nullptr ||
         dynamic_cast<const PublishesMessages*>(registration.async.get()) != nullptr;
}

}  // namespace

Route::Route(const Handlers::Registration& registration, const Handlers& handlers, TimePoint now)
    : registration_(with_middleware(registration, handlers)),
      around_async_(handlers.async_middleware()),
      publishes_(is_publisher(registration)),
      limited_(registration.options.max_concurrency || registration.options.rate) {
  const std::optional<RateLimit>& rate = registration.options.rate;
  if (rate) bucket_ = std::make_unique<TokenBucket>(*rate, now);
}

std::size_t Route::room(TimePoint now) {
  // Said before looking: a handler that ends after the look sees it.
  room_is_wanted_ = true;
  std::size_t room = kUnlimited;
  if (const auto max = registration_.options.max_concurrency) {
    const std::size_t held = held_.load();
    room = held < *max ? *max - held : 0;
  }
  if (bucket_ != nullptr) room = std::min(room, bucket_->available(now));
  if (room > 0) room_is_wanted_ = false;
  return room;
}

TimePoint Route::room_at(TimePoint now) {
  const auto max = registration_.options.max_concurrency;
  if (max && held_.load() >= *max) return kMaxTime;
  return bucket_ != nullptr ? bucket_->next_at(now) : kMaxTime;
}

void Route::admit(TimePoint now) {
  if (!limited_) return;
  held_.fetch_add(1);
  if (bucket_ != nullptr) bucket_->reserve(now);
}

bool Route::begin(TimePoint now) {
  if (bucket_ == nullptr) return false;
  bucket_->spend(now);
  return room_is_wanted_.exchange(false);
}

bool Route::end() noexcept {
  if (!limited_) return false;
  held_.fetch_sub(1);
  return room_is_wanted_.exchange(false);
}

bool Route::give_back(TimePoint now) {
  if (bucket_ != nullptr) bucket_->give_back(now);
  return end();
}

void ClaimPlan::reserve(TimePoint now) const {
  for (Route* route : limited) {
    for (std::size_t i = 0; i < limit; ++i) route->admit(now);
  }
}

bool ClaimPlan::unreserve(TimePoint now) const {
  bool room_was_wanted = false;
  for (Route* route : limited) {
    for (std::size_t i = 0; i < limit; ++i) room_was_wanted |= route->give_back(now);
  }
  return room_was_wanted;
}

Routes::Routes(const Handlers& handlers, NoHandlerPolicy no_handler, TimePoint now)
    : claims_unhandled_(no_handler != NoHandlerPolicy::ignore) {
  // A claim names them all, and perhaps "*" beside them.
  require_in_range("number of handlers of a dispatcher", handlers.registrations().size(), 0,
                   limits::kMaxTopicPatterns - 1);
  for (const Handlers::Registration& registration : handlers.registrations()) {
    Route& route = *routes_.emplace_back(std::make_unique<Route>(registration, handlers, now));
    if (route.pattern().is_exact()) {
      exact_.emplace(route.pattern().stem(), &route);
    } else {
      stems_.push_back(&route);
    }
  }
  const auto longer = [](const Route* a, const Route* b) {
    return a->pattern().stem().size() > b->pattern().stem().size();
  };
  std::sort(stems_.begin(), stems_.end(), longer);
  const bool handles_everything = !stems_.empty() && stems_.back()->pattern().stem().empty();
  if (handles_everything) claims_unhandled_ = false;
}

Route* Routes::find(std::string_view topic) noexcept {
  if (const auto exact = exact_.find(topic); exact != exact_.end()) return exact->second;
  for (Route* route : stems_) {
    if (route->pattern().matches(topic)) return route;
  }
  return nullptr;
}

void Routes::pause() {
  const detail::Lock lock(mutex_);
  all_paused_ = true;
  pauses_changed();
}

void Routes::resume() {
  const detail::Lock lock(mutex_);
  all_paused_ = false;
  pauses_changed();
}

void Routes::pause(const TopicPattern& pattern) {
  const detail::Lock lock(mutex_);
  if (std::find(paused_.begin(), paused_.end(), pattern) == paused_.end()) {
    paused_.push_back(pattern);
  }
  pauses_changed();
}

void Routes::resume(const TopicPattern& pattern) {
  const detail::Lock lock(mutex_);
  std::erase(paused_, pattern);
  pauses_changed();
}

void Routes::pauses_changed() { any_paused_ = all_paused_ || !paused_.empty(); }

bool Routes::is_paused(std::string_view topic) const {
  if (!any_paused_) return false;
  const detail::Lock lock(mutex_);
  return all_paused_ || best_match(paused_, topic).has_value();
}

bool Routes::rests(const TopicPattern& pattern) const {
  const auto covers_it = [&](const TopicPattern& paused) { return covers(paused, pattern); };
  return std::any_of(paused_.begin(), paused_.end(), covers_it);
}

ClaimPlans Routes::plan(std::size_t limit, TimePoint now) {
  const TopicPattern everything("*");
  ClaimPlans plans;
  const detail::Lock lock(mutex_);
  if (all_paused_ || rests(everything)) return plans;

  std::vector<TopicPattern> unlimited;
  std::vector<TopicPattern> limited;
  std::vector<Route*> limited_routes;
  std::vector<TopicPattern> closed = paused_;
  std::size_t limited_room = limit;
  for (const auto& route : routes_) {
    if (rests(route->pattern())) {
      closed.push_back(route->pattern());
    } else if (!route->is_limited()) {
      unlimited.push_back(route->pattern());
    } else if (const std::size_t room = route->room(now); room > 0) {
      limited.push_back(route->pattern());
      limited_routes.push_back(route.get());
      limited_room = std::min(limited_room, room);
    } else {
      closed.push_back(route->pattern());
      plans.lacks_room = true;
      plans.room_at = std::min(plans.room_at, route->room_at(now));
    }
  }

  const auto with = [](std::vector<TopicPattern> patterns, const std::vector<TopicPattern>& more) {
    patterns.insert(patterns.end(), more.begin(), more.end());
    return patterns;
  };
  if (!limited.empty()) {
    plans.limited = {
        {.only = limited, .except = with(closed, unlimited)}, limited_room, limited_routes};
  }
  std::vector<TopicPattern> except = with(std::move(closed), limited);
  // Named beside the others, because a pattern that is left out yields only to a longer one.
  if (claims_unhandled_) unlimited.push_back(everything);
  if (unlimited.empty()) return plans;
  const bool all = except.empty() &&
                   std::find(unlimited.begin(), unlimited.end(), everything) != unlimited.end();
  if (all) unlimited.clear();
  plans.unlimited = {{.only = std::move(unlimited), .except = std::move(except)}, limit, {}};
  return plans;
}

}  // namespace oncebox::dispatcher
