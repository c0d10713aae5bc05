#include "oncebox/engine/store_calls.hpp"

#include <algorithm>
#include <exception>
#include <list>
#include <system_error>
#include <thread>
#include <utility>

#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::engine {

namespace {

/// A call that threw comes again after this.
constexpr Duration kPauseAfterThrow = std::chrono::seconds{1};

}  // namespace

struct StoreCalls::LaneState : CallPlan::Lane {
  LaneState(Run to_run, std::function<void()> when_ready)
      : run(std::move(to_run)), on_ready(std::move(when_ready)) {}

  void append(std::unique_ptr<Call> call) noexcept {
    Call* const added = call.get();
    (last == nullptr ? first : last->next_) = std::move(call);
    last = added;
  }
  [[nodiscard]] std::unique_ptr<Call> take() noexcept {
    std::unique_ptr<Call> call = std::move(first);
    first = std::move(call->next_);
    if (!first) last = nullptr;
    return call;
  }

  const Run run;
  const std::function<void()> on_ready;
  std::unique_ptr<Call> first;  ///< of those that were posted
  Call* last = nullptr;
  bool is_left = false;  ///< nobody holds it any more
  std::list<LaneState>::iterator self;
};

/// Outlives the threads, and goes with the last lane: they all share its lock.
class StoreCalls::Impl final : private CallPlan::Chooser {
 public:
  Impl(const Options& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        plan_(options.limits, options.chooser == nullptr ? nullptr : this),
        time_(clock),
        work_(clock) {
    const detail::Lock lock(mutex_);
    if (options_.threads_kept > 0 && !start_thread()) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                              "no thread for calls to stores");
    }
  }

  LaneState* add(Store store) {
    std::list<LaneState> one;
    LaneState& lane = one.emplace_back(std::move(store.run), std::move(store.on_ready));
    lane.self = one.begin();
    const detail::Lock lock(mutex_);
    plan_.add(lane, store.server, store.width);
    lanes_.splice(lanes_.end(), one);
    hand_on();
    return &lane;
  }

  void leave(LaneState& lane) noexcept {
    std::list<LaneState> gone;  // what its function holds is let go outside of the lock
    const detail::Lock lock(mutex_);
    lane.is_left = true;
    for (const CallKind kind : {CallKind::settle, CallKind::keep, CallKind::call}) {
      plan_.unwant(lane, kind);
    }
    take_out_if_gone(lane, gone);
  }

  template <class Change>
  void change(Change apply) noexcept {
    const detail::Lock lock(mutex_);
    apply(plan());
    hand_on();
  }

  bool post(LaneState& lane, std::unique_ptr<Call> call) noexcept {
    const detail::Lock lock(mutex_);
    if (!plan_.post(lane)) return false;
    lane.append(std::move(call));
    hand_on();
    return true;
  }

  void stop() {
    const detail::Lock joining(joining_);  // whoever comes second waits, too
    Threads all;
    {
      const detail::Lock lock(mutex_);
      is_stopped_ = true;
      plan_.stop();
      // Without threads the calls that wait are made here.
      while (threads_.empty() && plan_.begin_next(spare_, clock_.steady())) run(spare_);
      all.splice(all.end(), threads_);
      all.splice(all.end(), ended_);
    }
    time_.notify_all();
    work_.notify_all();
  }

  void drop() noexcept {
    std::list<LaneState> gone;
    std::unique_ptr<Call> dropped;
    {
      const detail::Lock lock(mutex_);
      is_stopped_ = true;
      plan_.drop();
      for (auto at = lanes_.begin(); at != lanes_.end();) {
        LaneState& lane = *at++;
        plan_.unpost(lane);
        if (lane.last != nullptr) {
          lane.last->next_ = std::move(dropped);
          dropped = std::move(lane.first);
          lane.last = nullptr;
        }
        take_out_if_gone(lane, gone);
      }
    }
    // One call after the other: the chain may be longer than the stack is deep.
    while (dropped) dropped = std::move(dropped->next_);
    time_.notify_all();
    work_.notify_all();
  }

  bool run_next() {
    CallPlan::Slot slot;
    const detail::Lock lock(mutex_);
    if (!plan_.begin_next(slot, clock_.steady())) return false;
    run(slot);
    return true;
  }

  [[nodiscard]] SteadyTime next_change() const {
    const detail::Lock lock(mutex_);
    return plan_.next_change();
  }

  [[nodiscard]] std::size_t threads() const {
    const detail::Lock lock(mutex_);
    return threads_.size();
  }

  [[nodiscard]] bool is_own_thread() const {
    const detail::Lock lock(mutex_);
    return std::ranges::any_of(threads_, [self = std::this_thread::get_id()](const auto& own) {
      return own.get_id() == self;
    });
  }

 private:
  using Threads = std::list<std::jthread>;

  // Called by the plan, and so under the lock.
  void on_ready(CallPlan::Lane& lane) noexcept override {
    static_cast<LaneState&>(lane).on_ready();
  }
  CallPlan::Lane* choose() noexcept ONCEBOX_NO_THREAD_ANALYSIS override {
    const Lane* const chosen = options_.chooser->choose(Candidates(plan_));
    return chosen == nullptr ? nullptr : chosen->state_;
  }

  [[nodiscard]] CallPlan& plan() ONCEBOX_REQUIRES(mutex_) { return plan_; }

  void work(Threads::iterator self, CallPlan::Slot& slot) ONCEBOX_EXCLUDES(mutex_);
  void run(CallPlan::Slot& slot) ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] CallEnded run(const LaneState& lane, CallKind kind) const noexcept;

  /// After every change of the plan: sees to it that a thread looks at it, now or in time.
  void hand_on() noexcept ONCEBOX_REQUIRES(mutex_);
  void wake_one() noexcept ONCEBOX_REQUIRES(mutex_);
  bool start_thread() noexcept ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] bool may_end() const noexcept ONCEBOX_REQUIRES(mutex_);
  void wait(SteadyTime rest_until) ONCEBOX_REQUIRES(mutex_);
  void take_out_if_gone(LaneState& lane, std::list<LaneState>& gone) noexcept
      ONCEBOX_REQUIRES(mutex_);

  const Options options_;
  const Clock& clock_;
  mutable detail::Mutex mutex_;
  CallPlan plan_ ONCEBOX_GUARDED_BY(mutex_);
  std::list<LaneState> lanes_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;
  CallPlan::Slot spare_ ONCEBOX_GUARDED_BY(joining_);  // for `stop`

  // Of the threads that have no call one keeps the time, and the others wait for work.
  detail::TimedCondition time_;
  detail::TimedCondition work_;
  std::size_t idle_ ONCEBOX_GUARDED_BY(mutex_) = 0;  // have no call, and wait or are about to look
  std::size_t waiting_ ONCEBOX_GUARDED_BY(mutex_) = 0;  // of these, for work
  bool is_time_kept_ ONCEBOX_GUARDED_BY(mutex_) = false;
  SteadyTime kept_until_ ONCEBOX_GUARDED_BY(mutex_) = {};

  detail::Mutex joining_;
  Threads threads_ ONCEBOX_GUARDED_BY(mutex_);
  Threads ended_ ONCEBOX_GUARDED_BY(mutex_);  // at most one; the next thread that ends joins it
};

void StoreCalls::Impl::work(Threads::iterator self, CallPlan::Slot& slot) {
  Threads before;  // joined outside of the lock
  const detail::Lock lock(mutex_);
  bool has_worked = true;
  SteadyTime rest_until{};
  for (;;) {
    const SteadyTime now = clock_.steady();
    if (plan_.begin_next(slot, now)) {
      --idle_;
      hand_on();
      run(slot);
      ++idle_;
      has_worked = true;
      continue;
    }
    if (is_stopped_) return;
    if (std::exchange(has_worked, false)) rest_until = now + options_.rest;
    if (now >= rest_until && may_end()) break;
    wait(rest_until);
  }
  --idle_;
  before.splice(before.end(), ended_);
  ended_.splice(ended_.end(), threads_, self);
}

void StoreCalls::Impl::run(CallPlan::Slot& slot) {
  auto& lane = static_cast<LaneState&>(slot.lane());
  std::unique_ptr<Call> posted = slot.is_posted() ? lane.take() : nullptr;
  mutex_.unlock();
  CallEnded ended{.store = CallEnded::Store::unknown};
  if (posted) {
    posted->run();
    posted.reset();
  } else {
    ended = run(lane, slot.kind());
  }
  mutex_.lock();
  if (lane.is_left) ended.again = SteadyTime::max();
  plan_.end(slot, ended);
  std::list<LaneState> gone;
  take_out_if_gone(lane, gone);
  if (gone.empty()) return;
  hand_on();  // the place of this call is free for another one, however long that takes
  mutex_.unlock();
  gone.clear();  // that may close the store
  mutex_.lock();
}

CallEnded StoreCalls::Impl::run(const LaneState& lane, CallKind kind) const noexcept {
  try {
    return lane.run(kind);
  } catch (...) {
    return {.store = CallEnded::Store::failed, .again = clock_.steady() + kPauseAfterThrow};
  }
}

void StoreCalls::Impl::take_out_if_gone(LaneState& lane, std::list<LaneState>& gone) noexcept {
  if (!lane.is_left || !lane.is_quiet()) return;
  plan_.remove(lane);
  gone.splice(gone.end(), lanes_, lane.self);
}

void StoreCalls::Impl::hand_on() noexcept {
  if (plan_.has_next()) return wake_one();
  const SteadyTime change = plan_.next_change();
  if (is_time_kept_) {
    if (change < kept_until_) time_.notify_one();
  } else if (change != SteadyTime::max()) {
    wake_one();
  }
}

// A thread that is about to look needs no notice. One that was woken hands on what it leaves.
void StoreCalls::Impl::wake_one() noexcept {
  if (waiting_ > 0) {
    work_.notify_one();
  } else if (is_time_kept_) {
    time_.notify_one();
  } else if (idle_ == 0) {
    (void)start_thread();
  }
}

bool StoreCalls::Impl::start_thread() noexcept {
  if (is_stopped_ || threads_.size() >= options_.threads) return false;
  try {
    Threads one(1);
    auto slot = std::make_unique<CallPlan::Slot>();
    one.front() =
        std::jthread([this, self = one.begin(), slot = std::move(slot)] { work(self, *slot); });
    threads_.splice(threads_.end(), one);
    ++idle_;
    return true;
  } catch (const std::exception&) {
    return false;  // no thread, or no memory for one
  }
}

// Somebody has to keep the time while there is a time to wait for.
bool StoreCalls::Impl::may_end() const noexcept {
  return threads_.size() > options_.threads_kept &&
         (is_time_kept_ || plan_.next_change() == SteadyTime::max());
}

void StoreCalls::Impl::wait(SteadyTime rest_until) {
  if (threads_.size() <= options_.threads_kept) rest_until = SteadyTime::max();
  if (is_time_kept_) {
    // The call that this thread has made may come again before what the other one waits for.
    if (plan_.next_change() < kept_until_) time_.notify_one();
    ++waiting_;
    work_.wait_until(mutex_, rest_until);
    --waiting_;
    return;
  }
  const SteadyTime change = plan_.next_change();
  is_time_kept_ = true;
  kept_until_ = change == SteadyTime::max() ? rest_until : change;
  time_.wait_until(mutex_, kept_until_);
  is_time_kept_ = false;
}

// The handles -----------------------------------------------------------------------------------

StoreCalls::StoreCalls(const Options& options, const Clock& clock)
    : impl_(std::make_shared<Impl>(options, clock)) {}

StoreCalls::~StoreCalls() {
  impl_->drop();
  impl_->stop();
}

StoreCalls::Lane StoreCalls::add(Store store) { return {impl_, impl_->add(std::move(store))}; }
void StoreCalls::reconsider() noexcept {
  impl_->change([](CallPlan& plan) { plan.reconsider(); });
}
bool StoreCalls::run_next() { return impl_->run_next(); }
SteadyTime StoreCalls::next_change() const { return impl_->next_change(); }
void StoreCalls::stop() { impl_->stop(); }
void StoreCalls::drop() noexcept { impl_->drop(); }
std::size_t StoreCalls::threads() const { return impl_->threads(); }
bool StoreCalls::is_own_thread() const { return impl_->is_own_thread(); }

bool StoreCalls::Candidates::has(const Lane& lane) const noexcept {
  return plan_.may_choose(*lane.state_);
}

StoreCalls::Lane::Lane(std::shared_ptr<Impl> impl, LaneState* state) noexcept
    : impl_(std::move(impl)), state_(state) {}

StoreCalls::Lane::~Lane() {
  if (state_ != nullptr) impl_->leave(*state_);
}

StoreCalls::Lane::Lane(Lane&& other) noexcept
    : impl_(std::move(other.impl_)), state_(std::exchange(other.state_, nullptr)) {}

StoreCalls::Lane& StoreCalls::Lane::operator=(Lane&& other) noexcept {
  Lane before(std::move(*this));
  impl_ = std::move(other.impl_);
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}

void StoreCalls::Lane::want(CallKind kind) const noexcept {
  impl_->change([&](CallPlan& plan) { plan.want(*state_, kind); });
}

void StoreCalls::Lane::want_at(SteadyTime time, CallKind kind) const noexcept {
  impl_->change([&](CallPlan& plan) { plan.want_at(*state_, kind, time); });
}

void StoreCalls::Lane::unwant(CallKind kind) const noexcept {
  impl_->change([&](CallPlan& plan) { plan.unwant(*state_, kind); });
}

bool StoreCalls::Lane::post(std::unique_ptr<Call> call) const noexcept {
  return impl_->post(*state_, std::move(call));
}

void StoreCalls::Lane::set_width(std::size_t width) const noexcept {
  impl_->change([&](CallPlan& plan) { plan.set_width(*state_, width); });
}

}  // namespace oncebox::engine
