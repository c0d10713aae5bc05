#include "lease_keeper.hpp"

#include <algorithm>
#include <cstdint>

#include "oncebox/internal/message_line.hpp"

namespace oncebox::dispatcher {

LeaseKeeper::LeaseKeeper(const Parts& parts, const Settings& settings)
    : parts_(parts),
      settings_(settings),
      round_(std::max(settings.lease / 6, Duration{1})),
      since_round_(parts.clock),
      since_reap_(parts.clock) {}

SteadyTime LeaseKeeper::step() {
  if (const auto rounds = since_round_.elapsed() / round_; rounds > 0) {
    since_round_.restart();
    renew(static_cast<unsigned>(std::min<Duration::rep>(rounds, 2)));
  }
  // A large backlog is reaped in steps, so that leases are kept meanwhile.
  const bool reaps = settings_.reap_interval && reaping_;
  if (!reaps) {
    more_to_reap_ = false;
  } else if (more_to_reap_ || since_reap_.elapsed() >= *settings_.reap_interval) {
    since_reap_.restart();
    more_to_reap_ = reap_step();
  }
  return std::min(since_round_.at(round_), next_reap());
}

SteadyTime LeaseKeeper::next_reap() const {
  if (more_to_reap_) return {};
  const bool reaps = settings_.reap_interval && reaping_;
  return reaps ? since_reap_.at(*settings_.reap_interval) : SteadyTime::max();
}

// A failure is left to the next round: there is time for several before the lease ends.
void LeaseKeeper::renew(unsigned rounds) try {
  std::vector<LeaseExtension> extensions;
  const auto due = parts_.table.due_for_renewal(rounds, settings_.lease, extensions);
  constexpr std::size_t kMostAtOnce = 1'000;
  for (std::size_t first = 0; first < due.size(); first += kMostAtOnce) {
    const std::size_t count = std::min(kMostAtOnce, due.size() - first);
    const TimePoint lease_until = parts_.clock.now() + settings_.lease;
    const auto outcomes = parts_.store.extend(std::span(extensions).subspan(first, count));
    const auto lost =
        parts_.table.renewed(std::span(due).subspan(first, count), outcomes, lease_until);
    parts_.counters.lease_extensions += count - lost.size();
    for (const std::size_t i : lost) on_lost(due[first + i], extensions[first + i].delivery.key);
    log_lost(std::span(extensions).subspan(first, count), lost);
  }
} catch (const std::exception&) {
  ++parts_.counters.failed_store_calls;
}

void LeaseKeeper::on_lost(const Renewal& renewal, const MessageKey& key) {
  ++parts_.counters.leases_lost;
  parts_.observer.on_lease_lost(key);
  const auto waiting =
      parts_.ready.extract([](const InFlight& message) { return message.lease_lost.load(); });
  for (InFlight* message : waiting) parts_.workers.give_back(*message);
  parts_.workers.interrupt(renewal);
}

// After the handlers were told, because the store is asked what it knows of the messages: those in
// flight belong to their workers.
void LeaseKeeper::log_lost(std::span<const LeaseExtension> extensions,
                           std::span<const std::size_t> lost) {
  std::vector<detail::KeyLine> lines;
  for (const std::size_t i : lost) {
    const Delivery& delivery = extensions[i].delivery;
    const auto number = static_cast<std::uint64_t>(*delivery.number);
    detail::add_line(lines,
                     {LogLevel::warning, "lease lost", delivery.key, LogField("delivery", number)});
  }
  detail::write_lines(parts_.logger, parts_.store_name, lines, &parts_.store);
}

bool LeaseKeeper::reap_step() try {
  if (!reaping_) return false;
  const ReapRequest request;
  const ReapResult reaped = parts_.store.reap(request);
  parts_.counters.note(reaped);
  return reaped.total() == request.limit;
} catch (const std::exception&) {
  ++parts_.counters.failed_store_calls;
  return false;
}

}  // namespace oncebox::dispatcher
