#include "settler.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <variant>

#include "oncebox/error.hpp"
#include "oncebox/internal/message_line.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::dispatcher {

namespace {

constexpr detail::Backoff::Bounds kPauses{.first = Duration{50}, .longest = Duration{5'000}};

// Anything but a plain refusal may pass: a lost connection, or no memory for the moment.
bool may_succeed_later(const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  return error == nullptr || error->retryable() || error->code() == ErrorCode::outcome_unknown;
}

bool may_have_happened(const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  return error != nullptr && error->code() == ErrorCode::outcome_unknown;
}

/// As `push_back` would grow it.
void reserve_for(std::vector<InFlight*>& messages, std::size_t count) {
  if (count > messages.capacity()) messages.reserve(std::max(count, 2 * messages.capacity()));
}

}  // namespace

Settler::Settler(const Parts& parts, OnVerdicts on_verdicts)
    : parts_(parts), on_verdicts_(std::move(on_verdicts)), pause_(kPauses) {}

void Settler::submit(InFlight& message) noexcept {
  InFlight* top = submitted_.load(std::memory_order_relaxed);
  do {
    message.next_finished = top;
  } while (!submitted_.compare_exchange_weak(top, &message));
  // The thread that submitted the first one has called it.
  if (top == nullptr) on_verdicts_();
}

void Settler::gather() {
  if (gathered_ == nullptr) gathered_ = submitted_.exchange(nullptr);
  std::size_t count = 0;
  for (const InFlight* message = gathered_; message != nullptr; message = message->next_finished) {
    ++count;
  }
  // Without memory for them they are gathered the next time.
  const std::size_t before = pending_.size();
  reserve_for(pending_, before + count);
  reserve_for(recorded_, recorded_.size() + count);
  for (; gathered_ != nullptr; gathered_ = gathered_->next_finished) pending_.push_back(gathered_);
  const auto first_new = pending_.begin() + static_cast<std::ptrdiff_t>(before);
  std::reverse(first_new, pending_.end());
  const auto is_recorded = [](const InFlight* message) { return message->is_recorded; };
  std::copy_if(first_new, pending_.end(), std::back_inserter(recorded_), is_recorded);
  pending_.erase(std::remove_if(first_new, pending_.end(), is_recorded), pending_.end());
}

// Their verdicts were committed together with what their handlers did. One that came again since
// is another message under the same key: that delivery is given back.
void Settler::let_go_of_recorded() {
  if (recorded_.empty()) return;
  std::vector<Settlement> settlements;
  settlements.reserve(recorded_.size());
  for (InFlight* message : recorded_) {
    settlements.push_back({delivery_of(*message->claimed), Ack{}});
    count(*message, settlements.back(), {});
    parts_.room.on_payload_freed(*message->origin, std::exchange(message->bytes, 0));
  }
  for (InFlight* message : parts_.table.release(recorded_, settlements)) {
    message->is_recorded = false;
    message->verdict = Release{};
    pending_.push_back(message);
  }
  recorded_.clear();
  parts_.room.on_room();
}

SteadyTime Settler::step() {
  try {
    gather();
    let_go_of_recorded();
  } catch (const std::exception&) {
    return parts_.clock.steady() + pause_.take();  // no memory
  }
  next_step_ = {};
  try {
    if (!pending_.empty()) settle_next();
  } catch (const std::exception&) {
    return parts_.clock.steady() + pause_.take();  // no memory
  }
  return pending_.empty() ? kNothingLeft : next_step_;
}

void Settler::settle_next() {
  const std::size_t most = one_by_one_ > 0 ? 1 : limits::kMaxBatchItems;
  const std::size_t count = std::min(pending_.size(), most);
  try {
    parts_.table.address({pending_.data(), count}, settlements_);
    const auto outcomes = parts_.store.settle(std::span(settlements_.data(), count));
    pause_.reset();
    conclude(count, outcomes);
  } catch (const std::exception& failure) {
    on_failure(count, failure);
  }
}

void Settler::conclude(std::size_t count, const std::vector<SettleOutcome>& outcomes) {
  parts_.counters.settle_batch.record(count);
  for (std::size_t i = 0; i < count; ++i) {
    this->count(*pending_[i], settlements_[i], outcomes[i]);
    if (outcomes[i] != SettleStatus::lease_lost) pending_[i]->may_be_recorded = true;
  }
  drop_first(count);
}

void Settler::count(InFlight& message, const Settlement& settlement, const SettleOutcome& outcome) {
  message.settling.end({}, {{"outcome", to_string(outcome.status)}});
  // A store that does not notify would let it wait for the next poll.
  if (outcome.again_at) parts_.work.on_due(*outcome.again_at);
  Counters& counters = parts_.counters;
  if (outcome == SettleStatus::superseded) {
    ++counters.superseded;
    return;
  }
  if (outcome == SettleStatus::lease_lost) {
    // After a lost answer it means that the verdict was recorded the first time.
    if (!message.may_be_recorded && !message.lease_lost) ++counters.leases_lost;
    return;
  }
  if (outcome.death) {
    ++counters.dead;
    on_death(*message.claimed, settlement.verdict, *outcome.death);
  } else if (std::holds_alternative<Ack>(settlement.verdict)) {
    ++counters.handled;
  } else if (std::holds_alternative<Abandon>(settlement.verdict)) {
    ++counters.retried;
  } else {
    ++counters.released;
  }
  // The next one of its partition can be claimed now.
  if (message.claimed->message.partition_key) parts_.work.on_claimable();
}

void Settler::on_death(const ClaimedMessage& claimed, const Verdict& verdict, SettledDeath death) {
  const auto* abandon = std::get_if<Abandon>(&verdict);
  if (death == SettledDeath::attempts) {
    const std::string_view text = "handler failed for the last time, message is dead";
    detail::write_line(parts_.logger, {LogLevel::error, text, parts_.store_name, claimed.message},
                       {{"attempt", claimed.history.attempt + 1}});
  }
  const std::string& error = abandon != nullptr ? abandon->error : std::get<Fail>(verdict).error;
  parts_.observer.on_dead(claimed, error);
  parts_.dead_handlers.tell(claimed, error, parts_.store_name);
}

void Settler::drop_first(std::size_t count) {
  for (InFlight* message : std::span(pending_).first(count)) {
    parts_.room.on_payload_freed(*message->origin, std::exchange(message->bytes, 0));
  }
  const auto again =
      parts_.table.release({pending_.data(), count}, std::span(settlements_.data(), count));
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
  pending_.insert(pending_.end(), again.begin(), again.end());
  one_by_one_ -= std::min(one_by_one_, count);
  parts_.room.on_room();
}

void Settler::on_failure(std::size_t count, const std::exception& failure) {
  ++parts_.counters.failed_store_calls;
  if (may_have_happened(failure)) {
    for (std::size_t i = 0; i < count; ++i) pending_[i]->may_be_recorded = true;
  }
  if (!may_succeed_later(failure)) {
    if (count == 1) return give_up(1, failure.what());
    one_by_one_ = count;
    return;
  }
  if (!repeats_) return give_up(count, failure.what());
  next_step_ = parts_.clock.steady() + pause_.take();
}

void Settler::give_up(std::size_t count, const char* why) {
  parts_.counters.given_up += count;
  for (std::size_t i = 0; i < count; ++i) {
    pending_[i]->settling.end("not recorded", {});
    const std::string_view text = "verdict not recorded, the lease will lapse";
    detail::write_line(parts_.logger,
                       {LogLevel::error, text, parts_.store_name, pending_[i]->claimed->message},
                       {{"reason", why}});
  }
  drop_first(count);
}

}  // namespace oncebox::dispatcher
