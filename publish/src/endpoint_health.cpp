#include "endpoint_health.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "oncebox/webhook/webhook_delivery.hpp"

namespace oncebox::publish {

namespace {

/// How long the end waits for stores.
constexpr Duration kLongestClose = std::chrono::seconds{5};

}  // namespace

EndpointHealth::EndpointHealth(const PublishingParts& parts)
    : parts_(parts), finished_(parts.clock), thread_([this] { run(); }) {}

void EndpointHealth::on_worked(std::string_view store, const EndpointRecord& known) noexcept try {
  const std::string& name = known.endpoint.name.str();
  const detail::Lock lock(mutex_);
  if (is_closed_) return;  // what was borrowed may be gone
  bool has_failed_here = false;
  if (!failing_.empty()) {
    const Place place{std::string(store), name};
    has_failed_here = failing_.erase(place) > 0;
    if (Hold* const held = hold_of(place)) held->fails_since.reset();
  }
  if (!has_failed_here && !known.status.failing_since) return;
  add(store, known.endpoint.name, {.kind = EndpointEvent::Kind::worked, .at = parts_.clock.now()});
} catch (const std::exception&) {
  return;  // no memory
}

void EndpointHealth::on_failed(std::string_view store, const EndpointRecord& known,
                               const std::exception_ptr& failure) noexcept try {
  const detail::Lock lock(mutex_);
  if (is_closed_) return;  // what was borrowed may be gone
  try {
    std::rethrow_exception(failure);
  } catch (const NotNow&) {
    return;  // nothing was tried
  } catch (const webhook::ReceiverGone& gone) {
    add(store, known.endpoint.name,
        {.kind = EndpointEvent::Kind::disabled, .at = parts_.clock.now(), .reason = gone.what()});
  } catch (const PermanentFailure&) {
    return;  // the receiver is there, and refuses this message
  } catch (const RetryAfter& asked) {
    hold(store, known, asked.delay());
    add_failure(store, known);
  } catch (...) {
    add_failure(store, known);
  }
} catch (const std::exception&) {
  return;  // no memory
}

EndpointHealth::Hold* EndpointHealth::hold_of(const Place& place) {
  const auto found = holds_.find(place);
  return found == holds_.end() ? nullptr : &found->second;
}

void EndpointHealth::hold(std::string_view store, const EndpointRecord& known, Duration delay) {
  const TimePoint until = parts_.clock.now() + delay;
  const Place place{std::string(store), known.endpoint.name.str()};
  Hold* const held = hold_of(place);
  if (held != nullptr && held->endpoint == known.endpoint) {
    held->until = std::max(held->until, until);
  } else {
    holds_.insert_or_assign(place, Hold{until, known.endpoint});
  }
}

void EndpointHealth::require_ready(std::string_view store, const EndpointRecord& known,
                                   Moment looked_at) {
  const detail::Lock lock(mutex_);
  if (holds_.empty()) return;
  const auto found = holds_.find({std::string(store), known.endpoint.name.str()});
  if (found == holds_.end()) return;
  const Hold& held = found->second;
  const bool was_enabled =
      held.fails_since && *held.fails_since <= looked_at && !known.status.failing_since;
  const Duration left = held.until - parts_.clock.now();
  if (left > Duration::zero() && known.endpoint == held.endpoint && !was_enabled) {
    throw NotNow(left, "the receiver has asked for time");
  }
  holds_.erase(found);
}

void EndpointHealth::add_failure(std::string_view store, const EndpointRecord& known) {
  const EndpointName& name = known.endpoint.name;
  const Place place{std::string(store), name.str()};
  failing_.insert(place);
  EndpointEvent event{.kind = EndpointEvent::Kind::failed, .at = parts_.clock.now()};
  const EndpointRecord after{known.endpoint, status_after(known, event)};
  const Hold* const held = hold_of(place);
  const bool says_nothing_new =
      after.status == known.status && (held == nullptr || held->fails_since);
  if (says_nothing_new && !has_failed_too_long(after, event.at)) return;
  if (has_failed_too_long(after, event.at)) {
    event.kind = EndpointEvent::Kind::disabled;
    event.reason = fmt::format("deliveries have failed since {}, and none has succeeded",
                               format_rfc3339(*after.status.failing_since));
  }
  add(store, name, std::move(event));
}

bool EndpointHealth::is_of(const Note& note, std::string_view store, const EndpointName& endpoint) {
  return note.store == store && note.endpoint == endpoint;
}

void EndpointHealth::add(std::string_view store, const EndpointName& endpoint,
                         EndpointEvent event) {
  // Many deliveries say the same at once.
  const auto last = std::find_if(notes_.rbegin(), notes_.rend(),
                                 [&](const Note& note) { return is_of(note, store, endpoint); });
  if (last != notes_.rend() && last->event.kind == event.kind) {
    last->event = std::move(event);
    return;
  }
  notes_.push_back({std::string(store), endpoint, std::move(event)});
  changed_.notify_one();
}

void EndpointHealth::close() noexcept {
  {
    const detail::Lock lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    changed_.notify_one();
    const SteadyTime end = parts_.clock.steady() + kLongestClose;
    while (!is_finished_ && finished_.wait_until(mutex_, end)) continue;
  }
  ends_.request_stop();
  thread_.join();
}

void EndpointHealth::run() {
  while (const std::optional<Note> note = next_note()) write(*note);
}

std::optional<EndpointHealth::Note> EndpointHealth::next_note() {
  const detail::Lock lock(mutex_);
  while (notes_.empty() && !is_closed_) changed_.wait(mutex_);
  if (notes_.empty() || ends_.stop_requested()) {
    is_finished_ = true;
    finished_.notify_all();
    return std::nullopt;
  }
  std::optional<Note> next(std::move(notes_.front()));
  notes_.pop_front();
  return next;
}

// What became of the delivery stands whether or not this can be noted; the next one says it again.
void EndpointHealth::write(const Note& note) noexcept try {
  const std::shared_ptr<PublishingStore> store = parts_.find(note.store);
  const auto noted = store->store.endpoints().note(note.endpoint, note.event, limits_);
  on_written(note);
  const bool disables = note.event.kind == EndpointEvent::Kind::disabled;
  if (disables && noted && noted->changed) announce(note, noted->status);
} catch (const std::exception& failure) {
  parts_.logger.log(
      LogLevel::warning, "the status of an endpoint could not be saved; its next delivery saves it",
      {{"store", note.store}, {"endpoint", note.endpoint.str()}, {"reason", failure.what()}});
}

void EndpointHealth::on_written(const Note& note) {
  const detail::Lock lock(mutex_);
  const Moment moment = noted_.fetch_add(1) + 1;
  if (note.event.kind == EndpointEvent::Kind::worked) return;
  Hold* const held = hold_of({note.store, note.endpoint.str()});
  if (held == nullptr) return;
  // A success that waits to be written clears the status: that would look as if enabled.
  const bool success_follows = std::ranges::any_of(notes_, [&](const Note& next) {
    return is_of(next, note.store, note.endpoint) && next.event.kind == EndpointEvent::Kind::worked;
  });
  if (!success_follows) held->fails_since = moment;
}

void EndpointHealth::announce(const Note& note, const EndpointStatus& status) const {
  parts_.logger.log(LogLevel::error,
                    "an endpoint was disabled; once it works again: oncebox endpoints resume",
                    {{"store", note.store},
                     {"endpoint", note.endpoint.str()},
                     {"reason", status.disabled->reason}});
  if (!parts_.on_disabled) return;
  try {
    parts_.on_disabled({note.store, note.endpoint, status});
  } catch (const std::exception& failure) {
    parts_.logger.log(LogLevel::error, "no notice of a disabled endpoint was sent",
                      {{"endpoint", note.endpoint.str()}, {"reason", failure.what()}});
  }
}

}  // namespace oncebox::publish
