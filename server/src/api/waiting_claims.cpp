#include "api/waiting_claims.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "api/answer_hold.hpp"
#include "api/call_limits.hpp"
#include "http/answers.hpp"
#include "observe/metrics.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/mix.hpp"

namespace oncebox::server {

using engine::ClaimCycle;

namespace {

/// Between scans that find nothing.
constexpr Duration kFirstPause{1};
constexpr Duration kLongestPause{50};
/// After that long without a scan the next one may come at once.
constexpr Duration kForgotten = std::chrono::seconds{1};

bool same_topics(const TopicSelection& left, const TopicSelection& right) {
  return left.only == right.only && left.except == right.except;
}

std::size_t hash_of(const TopicSelection& topics) {
  std::size_t hash = topics.only.size();
  for (const std::vector<TopicPattern>* patterns : {&topics.only, &topics.except}) {
    for (const TopicPattern& pattern : *patterns) {
      hash = detail::mixed(hash ^ std::hash<std::string_view>{}(pattern.str()));
    }
  }
  return hash;
}

/// What the patterns of a claim take in memory, beyond what its connection counts for.
std::size_t held_bytes_of(const TopicSelection& topics) {
  constexpr std::size_t kUncountedPatternBytes = std::size_t{4} << 10;
  // Each is a text and its place in what is found by it.
  constexpr std::size_t kBytesOfPattern = 2 * sizeof(TopicPattern);
  std::size_t bytes = 0;
  for (const std::vector<TopicPattern>* patterns : {&topics.only, &topics.except}) {
    for (const TopicPattern& pattern : *patterns) bytes += kBytesOfPattern + pattern.str().size();
  }
  return bytes > kUncountedPatternBytes ? bytes : 0;
}

std::size_t bytes_of(const ReapResult& reaped) {
  std::size_t bytes = 0;
  for (const Death& death : reaped.deaths) {
    bytes += sizeof(Death) + death.key.source.str().size() + death.key.message_id.str().size() +
             death.topic.str().size() + death.cause.size();
  }
  return bytes;
}

bool concerns_the_store(const Error& error) {
  return error.code() == ErrorCode::unavailable || error.code() == ErrorCode::timeout ||
         error.code() == ErrorCode::overloaded;
}

std::vector<Settlement> releases_of(const std::vector<ClaimedMessage>& messages) {
  std::vector<Settlement> settlements;
  settlements.reserve(messages.size());
  for (const ClaimedMessage& message : messages) {
    settlements.push_back({.delivery = delivery_of(message), .verdict = Release{}});
  }
  return settlements;
}

}  // namespace

struct WaitingClaims::Claim {
  enum class State {
    trying,   ///< a thread is claiming for it
    waiting,  ///< in the list
    ended,    ///< answered, or its client is gone
  };

  ExchangePtr exchange;
  wire::ClaimCall call;
  std::size_t asked_bytes;  ///< a try asks for as many as there is memory for
  std::size_t topics_hash;
  SteadyTime deadline;
  MemoryHold hold;         ///< of its patterns, and of what it tells of
  ReapResult reaped = {};  ///< while it was tried
  State state = State::trying;
  bool gone = false;     ///< its client went away
  bool expired = false;  ///< its time passed while a thread was claiming for it
  bool changed = false;  ///< so was its token
  bool listed = false;
  std::list<ClaimPtr>::iterator position = {};
  FairPlaces::Place place = {};  ///< while it is listed
  Timers::Timer timer = {};      ///< ends it at the deadline
};

/// What a walk over the waiting claims has found out. Claims for the same topics stand for each
/// other; the walk keeps them.
struct WaitingClaims::Look {
  struct HashOfTopics {
    std::size_t operator()(const Claim* claim) const noexcept { return claim->topics_hash; }
  };
  struct SameTopics {
    bool operator()(const Claim* left, const Claim* right) const noexcept {
      return same_topics(left->call.request.topics, right->call.request.topics);
    }
  };
  using OneOfEachTopics = std::unordered_set<const Claim*, HashOfTopics, SameTopics>;

  OneOfEachTopics asked = {};      ///< for their due time
  OneOfEachTopics exhausted = {};  ///< nothing can be claimed
};

WaitingClaims::WaitingClaims(const Parts& parts, Settings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      cycle_({.poll = settings_.poll, .longest_poll = settings_.poll, .longest_rest = {}}),
      pause_({.first = kFirstPause, .longest = kLongestPause}),
      scans_(parts.calls.add_task([this, holder = parts.holder] {
        if (const auto held = holder.lock()) scan();
      })) {}

std::shared_ptr<WaitingClaims> WaitingClaims::self() {
  auto holder = parts_.holder.lock();
  return holder ? std::shared_ptr<WaitingClaims>(std::move(holder), this) : nullptr;
}

// Only once somebody waits: it may cost a connection, or a watch of a file.
void WaitingClaims::listen() {
  std::call_once(listens_, [this] { parts_.queue.listen(self()); });
}

// The first try -----------------------------------------------------------------------------------

void WaitingClaims::claim(const ExchangePtr& exchange, wire::ClaimCall call) {
  call.wait = std::min(call.wait, wire::ClaimCall::kMaxWait);
  const SteadyTime deadline = parts_.clock.steady() + call.wait;
  const std::size_t asked_bytes = call.request.max_bytes;
  const std::size_t topics_hash = hash_of(call.request.topics);
  MemoryHold hold = exchange->new_hold();
  if (!hold.resize(held_bytes_of(call.request.topics))) {
    throw Error(ErrorCode::overloaded, std::string(kNoMemoryDetail));
  }
  auto claim = std::make_shared<Claim>(Claim{.exchange = exchange,
                                             .call = std::move(call),
                                             .asked_bytes = asked_bytes,
                                             .topics_hash = topics_hash,
                                             .deadline = deadline,
                                             .hold = std::move(hold)});
  exchange->on_gone([self = std::weak_ptr(self()), weak = std::weak_ptr<Claim>(claim)] {
    const auto desk = self.lock();
    const auto gone = weak.lock();
    if (desk && gone) desk->withdraw(gone);
  });
  parts_.calls.submit(exchange->request(), [self = self(), claim = std::move(claim)]() noexcept {
    try {
      self->try_first(claim);
    } catch (...) {
      self->fail(claim, std::current_exception());
    }
  });
}

// After a claim that found nothing comes the question for the next due time, and one more claim, as
// the cycle wants it.
void WaitingClaims::try_first(const ClaimPtr& claim) {
  bool is_gone = false;
  {
    const detail::Lock lock(mutex_);
    is_gone = claim->gone;
  }
  if (is_gone) return end_empty(*claim);
  Taken taken = take(*claim);
  if (!taken.messages.empty()) return deliver(claim, std::move(taken));
  if (claim->call.wait <= Duration{0}) return end_empty(*claim);

  listen();
  Tried tried{.began = ClaimCycle::Now::of(parts_.clock), .seen_work = work_.load()};
  tried.due = parts_.queue.next_due(claim->call.request.topics);
  taken = take(*claim);
  if (!taken.messages.empty()) return deliver(claim, std::move(taken));
  park(claim, tried);
}

WaitingClaims::Taken WaitingClaims::take(Claim& claim) {
  Taken taken{.hold = AnswerHold::for_claim(*claim.exchange, claim.asked_bytes)};
  claim.call.request.max_bytes = taken.hold.max_bytes();
  ClaimResult claimed = parts_.queue.claim(claim.call.request);
  // It may tell of messages that are not for the caller.
  if (CallLimits(claim.exchange->request()).allow_all_messages()) {
    const std::size_t before = bytes_of(claim.reaped);
    claim.reaped.add(std::move(claimed.reaped));
    claim.hold.force(claim.hold.size() + bytes_of(claim.reaped) - before);
  }
  taken.messages = std::move(claimed.messages);
  return taken;
}

void WaitingClaims::deliver(const ClaimPtr& claim, Taken taken) {
  const ClaimResult claimed{std::move(taken.messages), claim->reaped};
  Response response;
  bool is_unchanged = true;
  try {
    is_unchanged = claim->exchange->standing().is_unchanged;
    taken.hold.count(wire::json_size(claimed));
    response =
        std::move(taken.hold).answer(wire::write_claimed(claim->call.request.owner, claimed));
    response.undelivered = [weak = std::weak_ptr(self()),
                            settlements = releases_of(claimed.messages)] {
      const auto self = weak.lock();
      if (!self) return;
      self->parts_.calls.submit_own([self, settlements]() noexcept { self->release(settlements); });
    };
  } catch (...) {
    release(claimed.messages);
    throw;
  }
  bool gone = false;
  {
    const detail::Lock lock(mutex_);
    gone = claim->gone;
    leave(*claim);
  }
  if (gone || !is_unchanged) {
    release(claimed.messages);
    return send_empty(*claim);
  }
  claim->exchange->send(std::move(response));
}

void WaitingClaims::release(const std::vector<ClaimedMessage>& messages) noexcept try {
  release(releases_of(messages));
} catch (const std::exception& failure) {
  log_not_released(messages.size(), failure);
}

void WaitingClaims::release(const std::vector<Settlement>& settlements) noexcept try {
  parts_.queue.settle(settlements);
} catch (const std::exception& failure) {
  log_not_released(settlements.size(), failure);
}

void WaitingClaims::log_not_released(std::size_t count, const std::exception& failure) noexcept {
  parts_.logger.log(LogLevel::warning, "messages could not be given back; their leases will end",
                    {{"store", settings_.store},
                     {"queue", settings_.queue},
                     {"count", count},
                     {"reason", failure.what()}});
}

void WaitingClaims::end_empty(Claim& claim) noexcept {
  {
    const detail::Lock lock(mutex_);
    leave(claim);
  }
  send_empty(claim);
}

void WaitingClaims::send_empty(const Claim& claim) noexcept {
  answer(*claim.exchange, [&] {
    if (auto refusal = claim.exchange->standing().refusal) return std::move(*refusal);
    return json_response(wire::write_claimed(claim.call.request.owner, {.reaped = claim.reaped}));
  });
}

void WaitingClaims::fail(const ClaimPtr& claim, const std::exception_ptr& failure) noexcept {
  {
    const detail::Lock lock(mutex_);
    leave(*claim);
  }
  // What was buried meanwhile is told; the next claim fails if the store still does.
  if (claim->reaped.total() > 0) return send_empty(*claim);
  claim->exchange->send(failure_response(failure, claim->exchange->request()));
}

// Waiting -----------------------------------------------------------------------------------------

void WaitingClaims::park(const ClaimPtr& claim, const Tried& tried) {
  claim->timer =
      parts_.timers.add([self = std::weak_ptr(self()), weak = std::weak_ptr<Claim>(claim)] {
        const auto desk = self.lock();
        const auto late = weak.lock();
        if (desk && late) desk->expire(late);
      });
  std::list<ClaimPtr> entry{claim};
  bool is_parked = false;
  {
    const detail::Lock lock(mutex_);
    if (!claim->gone && !draining_ && parts_.clock.steady() < claim->deadline) {
      claim->place = parts_.places.take(claim->exchange->request());
      if (!claim->place.is_taken()) {
        throw Error(ErrorCode::overloaded,
                    "too many claims of this token or address wait already; the server's "
                    "limits.max_waiting_claims says how many may");
      }
      claim->position = entry.begin();
      waiting_.splice(waiting_.end(), entry);
      claim->listed = true;
      claim->state = Claim::State::waiting;
      ++waiting_count_;
      parts_.metrics.on_waiting_claims(1);
      claim->timer.want_at(claim->deadline);
      note(tried);
      plan_scan();
      is_parked = true;
    }
  }
  if (!is_parked) return end_empty(*claim);
  check_token(claim);  // the tokens may have been read again before it was among those that wait
}

// The first that waits has just done what a scan does. Later ones add what the cycle does not know.
void WaitingClaims::note(const Tried& tried) noexcept {
  const auto now = ClaimCycle::Now::of(parts_.clock);
  const bool is_first = waiting_.size() == 1 && !scanning_;
  if (is_first) {
    cycle_.begin(ClaimCycle::Do::ask_due_and_claim, tried.began);
    cycle_.found({.due = tried.due}, now);
  } else if (tried.due) {
    const bool is_late = *tried.due <= tried.began.wall;  // the store's clock is behind
    cycle_.on_due(is_late ? now.wall + ClaimCycle::kFirstClockPause : *tried.due, now);
  }
  // Word that came between the claim and this moment found nobody waiting.
  if (work_.load() != tried.seen_work) cycle_.on_news();
}

void WaitingClaims::withdraw(const ClaimPtr& claim) noexcept {
  {
    const detail::Lock lock(mutex_);
    claim->gone = true;
    if (claim->state != Claim::State::waiting) return;
    leave(*claim);
  }
  // It may have closed only its own side.
  send_empty(*claim);
}

void WaitingClaims::expire(const ClaimPtr& claim) noexcept {
  {
    const detail::Lock lock(mutex_);
    claim->expired = true;
    if (claim->state != Claim::State::waiting) return;
    leave(*claim);
  }
  send_empty(*claim);
}

void WaitingClaims::check_token(const ClaimPtr& claim) {
  if (claim->exchange->standing().is_unchanged) return;
  {
    const detail::Lock lock(mutex_);
    claim->changed = true;
    if (claim->state != Claim::State::waiting) return;
    leave(*claim);
  }
  send_empty(*claim);
}

void WaitingClaims::check_tokens() {
  std::vector<ClaimPtr> waiting;
  {
    const detail::Lock lock(mutex_);
    waiting.assign(waiting_.begin(), waiting_.end());
  }
  for (const ClaimPtr& claim : waiting) check_token(claim);
}

void WaitingClaims::leave(Claim& claim) noexcept {
  std::list<ClaimPtr> left;
  leave(claim, left);
}

void WaitingClaims::leave(Claim& claim, std::list<ClaimPtr>& to) noexcept {
  claim.state = Claim::State::ended;
  if (!std::exchange(claim.listed, false)) return;
  claim.timer.unwant();
  to.splice(to.end(), waiting_, claim.position);
  --waiting_count_;
  claim.place.leave();
  parts_.metrics.on_waiting_claims(-1);
}

std::list<WaitingClaims::ClaimPtr> WaitingClaims::end_waiting() noexcept {
  std::list<ClaimPtr> ended;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Claim& claim = **at++;
    if (claim.state == Claim::State::waiting) leave(claim, ended);
  }
  return ended;
}

void WaitingClaims::drain() noexcept {
  std::list<ClaimPtr> ended;
  {
    const detail::Lock lock(mutex_);
    draining_ = true;
    for (const ClaimPtr& claim : waiting_) claim->expired = true;
    ended = end_waiting();
  }
  for (const ClaimPtr& claim : ended) send_empty(*claim);
}

void WaitingClaims::close() noexcept {
  drain();
  const detail::Lock lock(mutex_);
  closed_ = true;
  scans_.unwant();
}

// Waking ------------------------------------------------------------------------------------------

void WaitingClaims::on_work() noexcept {
  ++work_;
  if (waiting_count_.load() == 0) return;
  const detail::Lock lock(mutex_);
  cycle_.on_news();
  plan_scan();
}

SteadyTime WaitingClaims::next_scan(SteadyTime now) noexcept {
  const ClaimCycle::Step step = cycle_.next(now);
  return step.claims() ? std::max(now, quiet_until_) : step.until;
}

void WaitingClaims::plan_scan() noexcept {
  if (scanning_ || closed_ || waiting_.empty()) return;
  const SteadyTime now = parts_.clock.steady();
  const SteadyTime next = next_scan(now);
  if (next > now) return scans_.want_at(next);
  scans_.want();
}

void WaitingClaims::scan() noexcept {
  {
    const detail::Lock lock(mutex_);
    if (closed_ || waiting_.empty()) return;
    // It was wanted for a time that has been put off since.
    const auto now = ClaimCycle::Now::of(parts_.clock);
    if (next_scan(now.steady) > now.steady) return plan_scan();
    scanning_ = true;
    cycle_.begin(ClaimCycle::Do::ask_due_and_claim, now);
  }
  std::optional<TimePoint> due;
  bool found = false;
  try {
    found = look_through(due);
  } catch (...) {
    fail_all(std::current_exception());
  }

  const detail::Lock lock(mutex_);
  const auto now = ClaimCycle::Now::of(parts_.clock);
  if (found || now.steady - quiet_until_ > kForgotten) {
    pause_.reset();
    quiet_until_ = now.steady;
  } else {
    quiet_until_ = now.steady + pause_.take();
  }
  scanning_ = false;
  // Whoever still waits has found nothing after the question. A failure has answered everybody, so
  // there is nothing to rest from.
  cycle_.found({.due = due}, now);
  plan_scan();
}

bool WaitingClaims::look_through(std::optional<TimePoint>& earliest_due) {
  Look look;
  std::vector<ClaimPtr> waiting;
  {
    const detail::Lock lock(mutex_);
    waiting.assign(waiting_.begin(), waiting_.end());
  }
  bool found = false;
  for (const ClaimPtr& claim : waiting) {
    if (look.exhausted.contains(claim.get())) continue;
    if (look.asked.insert(claim.get()).second) {
      const std::optional<TimePoint> due = parts_.queue.next_due(claim->call.request.topics);
      if (due && (!earliest_due || *due < *earliest_due)) earliest_due = due;
    }
    {
      const detail::Lock lock(mutex_);
      if (claim->state != Claim::State::waiting) continue;
      claim->state = Claim::State::trying;
    }
    if (try_again(claim)) {
      found = true;
    } else {
      look.exhausted.insert(claim.get());
    }
  }
  return found;
}

bool WaitingClaims::try_again(const ClaimPtr& claim) {
  try {
    Taken taken = take(*claim);
    if (!taken.messages.empty()) {
      deliver(claim, std::move(taken));
      return true;
    }
  } catch (const Error& error) {
    fail(claim, std::current_exception());
    if (concerns_the_store(error)) throw;
    return true;
  } catch (...) {
    fail(claim, std::current_exception());
    return true;
  }
  {
    const detail::Lock lock(mutex_);
    if (!claim->gone && !claim->expired && !claim->changed) {
      claim->state = Claim::State::waiting;
      return false;
    }
    leave(*claim);
  }
  send_empty(*claim);
  return false;
}

void WaitingClaims::fail_all(const std::exception_ptr& failure) noexcept {
  std::list<ClaimPtr> ended;
  {
    const detail::Lock lock(mutex_);
    ended = end_waiting();
  }
  for (const ClaimPtr& claim : ended) {
    claim->exchange->send(failure_response(failure, claim->exchange->request()));
  }
}

}  // namespace oncebox::server
