#include "endpoint_health.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "oncebox/webhook/webhook_delivery.hpp"

namespace oncebox::publish {

EndpointHealth::EndpointHealth(const PublishingParts& parts)
    : parts_(parts), thread_([this] { run(); }) {}

void EndpointHealth::on_worked(std::string_view store, const EndpointRecord& known) noexcept try {
  const std::string& name = known.endpoint.name.str();
  const detail::Lock lock(mutex_);
  if (is_closed_) return;  // what was borrowed may be gone
  const bool has_failed_here = !failing_.empty() && failing_.erase({std::string(store), name}) > 0;
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
    hold(store, known.endpoint.name, asked.delay());
    add_failure(store, known);
  } catch (...) {
    add_failure(store, known);
  }
} catch (const std::exception&) {
  return;  // no memory
}

void EndpointHealth::hold(std::string_view store, const EndpointName& endpoint, Duration delay) {
  TimePoint& until = holds_[{std::string(store), endpoint.str()}];
  until = std::max(until, parts_.clock.now() + delay);
}

void EndpointHealth::require_ready(std::string_view store, const EndpointName& endpoint) {
  const detail::Lock lock(mutex_);
  if (holds_.empty()) return;
  const auto found = holds_.find({std::string(store), endpoint.str()});
  if (found == holds_.end()) return;
  const Duration left = found->second - parts_.clock.now();
  if (left > Duration::zero()) throw NotNow(left, "the receiver has asked for time");
  holds_.erase(found);
}

void EndpointHealth::add_failure(std::string_view store, const EndpointRecord& known) {
  const EndpointName& name = known.endpoint.name;
  EndpointEvent event{.kind = EndpointEvent::Kind::failed, .at = parts_.clock.now()};
  const EndpointRecord after{known.endpoint, status_after(known, event)};
  if (after.status == known.status && !has_failed_too_long(after, event.at)) return;
  failing_.emplace(std::string(store), name.str());
  if (has_failed_too_long(after, event.at)) {
    event.kind = EndpointEvent::Kind::disabled;
    event.reason = fmt::format("deliveries have failed since {}, and none has succeeded",
                               format_rfc3339(*after.status.failing_since));
  }
  add(store, name, std::move(event));
}

void EndpointHealth::add(std::string_view store, const EndpointName& endpoint,
                         EndpointEvent event) {
  // Many deliveries say the same at once.
  const auto is_of_it = [&](const Note& note) {
    return note.store == store && note.endpoint == endpoint;
  };
  const auto last = std::find_if(notes_.rbegin(), notes_.rend(), is_of_it);
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
    is_closed_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void EndpointHealth::run() {
  for (;;) {
    std::deque<Note> note;
    {
      const detail::Lock lock(mutex_);
      while (notes_.empty() && !is_closed_) changed_.wait(mutex_);
      if (notes_.empty()) return;
      note.push_back(std::move(notes_.front()));
      notes_.pop_front();
    }
    write(note.front());
  }
}

// What became of the delivery stands whether or not this can be noted; the next one says it again.
void EndpointHealth::write(const Note& note) const noexcept try {
  const std::shared_ptr<PublishingStore> store = parts_.find(note.store);
  const auto noted = store->store.endpoints().note(note.endpoint, note.event);
  const bool disables = note.event.kind == EndpointEvent::Kind::disabled;
  if (disables && noted && noted->changed) announce(note, noted->status);
} catch (const std::exception& failure) {
  parts_.logger.log(
      LogLevel::warning, "the status of an endpoint could not be saved; its next delivery saves it",
      {{"store", note.store}, {"endpoint", note.endpoint.str()}, {"reason", failure.what()}});
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
