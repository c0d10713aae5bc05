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
  const bool has_failed_here = !failing_.empty() && failing_.erase({std::string(store), name}) > 0;
  if (!has_failed_here && !known.status.failing_since) return;
  add(store, known.endpoint.name, {.kind = EndpointEvent::Kind::worked});
} catch (const std::exception&) {
  return;  // no memory
}

void EndpointHealth::on_failed(std::string_view store, const EndpointRecord& known,
                               const std::exception_ptr& failure) noexcept try {
  const EndpointName& name = known.endpoint.name;
  const detail::Lock lock(mutex_);
  try {
    std::rethrow_exception(failure);
  } catch (const NotNow&) {
    return;
  } catch (const webhook::ReceiverGone& gone) {
    add(store, name, {.kind = EndpointEvent::Kind::disabled, .reason = gone.what()});
  } catch (...) {
    add_failure(store, known);
  }
} catch (const std::exception&) {
  return;  // no memory
}

void EndpointHealth::add_failure(std::string_view store, const EndpointRecord& known) {
  const EndpointName& name = known.endpoint.name;
  const auto& since = known.status.failing_since;
  const Duration patience = known.endpoint.disable_after;
  if (!since) {
    failing_.emplace(std::string(store), name.str());
    add(store, name, {.kind = EndpointEvent::Kind::failed});
  } else if (!is_closed_ && patience > Duration::zero() &&
             parts_.clock.now() - *since >= patience) {
    add(store, name,
        {.kind = EndpointEvent::Kind::disabled,
         .reason = fmt::format("every delivery has failed since {}", format_rfc3339(*since))});
  }
}

void EndpointHealth::add(std::string_view store, const EndpointName& endpoint,
                         EndpointEvent event) {
  if (is_closed_) return;  // what was borrowed may be gone
  event.at = parts_.clock.now();
  // Many deliveries say the same at once.
  const auto is_of_it = [&](const Note& note) {
    return note.store == store && note.endpoint == endpoint;
  };
  const auto last = std::find_if(notes_.rbegin(), notes_.rend(), is_of_it);
  if (last != notes_.rend() && last->event.kind == event.kind) return;
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
      LogLevel::warning, "what became of an endpoint could not be noted",
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
    parts_.logger.log(LogLevel::error, "nobody could be told that an endpoint was disabled",
                      {{"endpoint", note.endpoint.str()}, {"reason", failure.what()}});
  }
}

}  // namespace oncebox::publish
