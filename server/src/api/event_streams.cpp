#include "api/event_streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "observe/metrics.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

constexpr Duration kWatchedInterval = std::chrono::seconds{1};
constexpr Duration kUnwatchedInterval = std::chrono::seconds{10};
/// The sampler rests so many times as long as it counted, but no longer than `kLongestRest`.
constexpr int kSampleShare = 5;
constexpr Duration kLongestRest = std::chrono::seconds{10};
/// After that the sampler tells the answers it has. Later answers are told in the next round.
constexpr Duration kRoundLength = std::chrono::seconds{1};
constexpr std::size_t kAskedAtOnce = 8;
/// A store that has not answered for so long is down.
constexpr Duration kHangsAfter = std::chrono::seconds{10};
constexpr Duration kHeartbeat = std::chrono::seconds{15};
constexpr Duration kWorkInterval{50};
/// How many unused stores, and how many that did not answer, are asked in each round.
constexpr std::size_t kQuietStores = 16;
constexpr std::size_t kFailingStores = 2;
/// When a client that lost its connection comes back.
constexpr const char* kReconnect = "retry: 2000\n\n";

/// Keeps the next `count` stores in turn: by name, after `last`, then from the beginning.
void take_turns(std::vector<ServedStorePtr>& stores, std::size_t count, std::string& last) {
  const auto next = std::ranges::find_if(
      stores, [&](const ServedStorePtr& store) { return store->name() > last; });
  std::ranges::rotate(stores, next);
  if (stores.size() > count) stores.resize(count);
  if (!stores.empty()) last = stores.back()->name();
}

std::string server_sent(std::string_view event, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", event, data);
}

}  // namespace

/// Hears of one queue's work and passes it on, at most so often.
class EventStreams::WorkWatch final : public WorkListener,
                                      public std::enable_shared_from_this<WorkWatch> {
 public:
  WorkWatch(EventStreams& streams, const ServedQueue& queue)
      : streams_(streams),
        event_(server_sent("work", write_work_event(queue.store.name(), to_string(queue.kind)))) {}

  /// To be called before it listens.
  void arm() {
    timer_ = streams_.parts_.timers.add([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->tell();
    });
  }

  void on_work() noexcept override {
    const detail::Lock lock(mutex_);
    if (closed_ || streams_.listeners_ == 0) return;
    timer_.want_at(std::max(streams_.parts_.clock.steady(), last_ + kWorkInterval));
  }

  void close() noexcept {
    const detail::Lock lock(mutex_);
    closed_ = true;
  }

 private:
  void tell() {
    {
      const detail::Lock lock(mutex_);
      if (closed_) return;
      const SteadyTime now = streams_.parts_.clock.steady();
      // Wanted again while the timer was about to call.
      if (now < last_ + kWorkInterval) return timer_.want_at(last_ + kWorkInterval);
      last_ = now;
    }
    streams_.broadcast(event_);
  }

  EventStreams& streams_;
  const std::string event_;
  detail::Mutex mutex_;
  bool closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
  SteadyTime last_ ONCEBOX_GUARDED_BY(mutex_){};
  Timers::Timer timer_;
};

EventStreams::EventStreams(ServedStores& stores, const ApiParts& parts)
    : stores_(stores), parts_(parts) {}

EventStreams::~EventStreams() { stop(); }

void EventStreams::start() {
  sampler_ = std::jthread([this](const std::stop_token& stop) { sample_until_stopped(stop); });
  heartbeat_ = parts_.timers.add([this] {
    broadcast(":\n\n");
    heartbeat_.want_at(parts_.clock.steady() + kHeartbeat);
  });
  heartbeat_.want_at(parts_.clock.steady() + kHeartbeat);
}

void EventStreams::on_opened(const ServedStorePtr& store) {
  if (listeners_ > 0) watch(store);
}

std::shared_ptr<EventStreams::WorkWatch> EventStreams::new_watch(const ServedQueue& queue) {
  auto made = std::make_shared<WorkWatch>(*this, queue);
  made->arm();
  const detail::Lock lock(mutex_);
  if (draining_) return nullptr;  // `stop` may have closed the watches already
  std::erase_if(watches_, [](const auto& known) { return known.expired(); });
  watches_.push_back(made);
  return made;
}

// Listening may open a connection to the database, so it runs in the lane of the store.
void EventStreams::watch(const ServedStorePtr& store) {
  if (store->is_watched.exchange(true)) return;
  try {
    store->calls.submit_own([this, store]() noexcept { begin_to_watch(store); });
  } catch (...) {
    store->is_watched = false;
    throw;
  }
}

// A store that cannot be listened to now is tried again with the next stream.
void EventStreams::begin_to_watch(const ServedStorePtr& store) noexcept try {
  for (ServedQueue* queue : {&store->inbox, &store->outbox, &store->deliveries}) {
    const auto watch = new_watch(*queue);
    if (!watch) return;
    queue->watch = watch;
    queue->queue.listen(watch);
    // Messages may have come before the store could be listened to, and after a stream began.
    watch->on_work();
  }
} catch (const std::exception& failure) {
  store->is_watched = false;
  parts_.logger.log(LogLevel::warning,
                    "the store cannot be watched for work; the next event stream will try again",
                    {{"store", store->name()}, {"reason", failure.what()}});
}

void EventStreams::add(const ExchangePtr& exchange) {
  Response head{.content_type = "text/event-stream"};
  head.fields.add("Cache-Control", "no-store");
  if (exchange->request().method == Method::head) return exchange->send(std::move(head));

  StreamPtr stream;
  std::string sample;
  {
    const detail::Lock lock(mutex_);
    if (draining_) throw Error(ErrorCode::unavailable, "the server is stopping");
    FairPlaces::Place place = places_.take(exchange->request());
    if (!place.is_taken()) {
      throw Error(ErrorCode::overloaded,
                  "too many clients listen to events already, or too many of this token or "
                  "address; the server's limits.max_event_streams says how many may");
    }
    stream = exchange->send_stream(std::move(head));
    stream->write(kReconnect);  // before any event
    streams_.push_back({exchange, stream, std::move(place)});
    listeners_ = streams_.size();
    sample = last_sample_;
  }
  for (const ServedStorePtr& store : stores_.all()) watch(store);
  if (!sample.empty()) stream->write(std::move(sample));
  somebody_listens_.notify_all();
  check_tokens();  // they may have been read again before the stream was among the others
}

void EventStreams::check_tokens() {
  std::vector<Listener> ended;
  {
    const detail::Lock lock(mutex_);
    const auto is_unchanged = [](const Listener& listener) {
      return listener.exchange->standing().is_unchanged;
    };
    const auto first = std::ranges::partition(streams_, is_unchanged).begin();
    ended.assign(std::make_move_iterator(first), std::make_move_iterator(streams_.end()));
    streams_.erase(first, streams_.end());
    listeners_ = streams_.size();
  }
  for (const Listener& listener : ended) listener.stream->end();
}

void EventStreams::broadcast(const std::string& text) {
  std::vector<StreamPtr> streams;
  {
    const detail::Lock lock(mutex_);
    std::ranges::transform(streams_, std::back_inserter(streams), &Listener::stream);
  }
  std::erase_if(streams, [&](const StreamPtr& one) { return one->write(text); });
  if (streams.empty()) return;
  const detail::Lock lock(mutex_);
  std::erase_if(streams_, [&](const Listener& one) {
    return std::ranges::find(streams, one.stream) != streams.end();
  });
  listeners_ = streams_.size();
}

void EventStreams::drain() noexcept {
  std::vector<Listener> ended;
  {
    const detail::Lock lock(mutex_);
    draining_ = true;
    ended.swap(streams_);
    listeners_ = 0;
  }
  for (const Listener& listener : ended) listener.stream->end();
}

void EventStreams::stop() {
  drain();
  std::vector<std::weak_ptr<WorkWatch>> watches;
  {
    const detail::Lock lock(mutex_);
    watches = watches_;
  }
  for (const auto& known : watches) {
    if (const auto watch = known.lock()) watch->close();
  }
  sampler_.request_stop();
  if (sampler_.joinable()) sampler_.join();
}

void EventStreams::sample_until_stopped(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { wake_sampler(); });
  while (!stop.stop_requested()) {
    const SteadyTime started = parts_.clock.steady();
    Duration took{};
    try {
      took = sample(stop);
    } catch (const std::exception& failure) {
      parts_.logger.log(LogLevel::warning, "the queues could not be counted; the next round will",
                        {{"reason", failure.what()}});
    }
    const SteadyTime rested = parts_.clock.steady() + std::min(took * kSampleShare, kLongestRest);
    const SteadyTime watched = std::max(started + kWatchedInterval, rested);
    const SteadyTime unwatched = std::max(started + kUnwatchedInterval, rested);
    rest(stop, watched, unwatched);
  }
}

void EventStreams::wake_sampler() noexcept {
  {
    const detail::Lock lock(mutex_);
    somebody_listens_.notify_all();
  }
  const detail::Lock lock(answers_mutex_);
  answered_.notify_all();
}

void EventStreams::rest(const std::stop_token& stop, SteadyTime watched, SteadyTime unwatched) {
  const detail::Lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!somebody_listens_.wait_until(mutex_, streams_.empty() ? unwatched : watched)) return;
  }
}

Duration EventStreams::sample(const std::stop_token& stop) {
  const std::vector<ServedStorePtr> stores = stores_.all();
  // Stores that an earlier round had no time for come first.
  if (to_ask_.empty()) std::ranges::copy(choose(stores), std::back_inserter(to_ask_));
  ask(stop, parts_.clock.steady() + kRoundLength);
  std::vector<QueueSample> samples;
  const Duration took = take_answers(samples);
  give_up_waiting();
  show_health(stores);
  const bool somebody_listens = listeners_ > 0;
  std::string event;
  if (somebody_listens) event = server_sent("stats", write_samples(samples, parts_.clock.now()));
  {
    const detail::Lock lock(mutex_);
    last_sample_ = event;
  }
  if (somebody_listens) broadcast(event);
  return took;
}

std::vector<ServedStorePtr> EventStreams::choose(const std::vector<ServedStorePtr>& stores) {
  std::vector<ServedStorePtr> chosen;
  std::vector<ServedStorePtr> quiet;
  std::vector<ServedStorePtr> failing;
  for (const ServedStorePtr& store : stores) {
    if (is_asked(store)) continue;
    if (failing_.contains(store->name())) {
      failing.push_back(store);
      continue;
    }
    const bool is_used = store->take_use();
    (is_used || busy_.contains(store->name()) ? chosen : quiet).push_back(store);
  }
  take_turns(quiet, kQuietStores, last_quiet_);
  chosen.insert(chosen.end(), quiet.begin(), quiet.end());
  std::ranges::sort(chosen, {}, [](const ServedStorePtr& store) { return store->name(); });
  // A store that did not answer may take long again: it is asked after the others.
  const bool are_many = stores.size() > kQuietStores;
  take_turns(failing, are_many ? kFailingStores : failing.size(), last_failing_);
  chosen.insert(chosen.end(), failing.begin(), failing.end());
  return chosen;
}

bool EventStreams::is_asked(const ServedStorePtr& store) const {
  return asked_.contains(std::weak_ptr<ServedStore>(store));
}

void EventStreams::ask(const std::stop_token& stop, SteadyTime until) {
  detail::Lock lock(answers_mutex_);
  // Stores asked in an earlier round do not count: they may never answer.
  const std::uint64_t round = ++round_;
  under_way_ = 0;
  while (!to_ask_.empty()) {
    if (!wait_for_answers(stop, until, kAskedAtOnce - 1)) return;
    const ServedStorePtr store = to_ask_.front().lock();
    to_ask_.pop_front();
    if (!store) continue;
    // Made before it is asked: an answer never gets lost for lack of memory.
    std::list<Answer> answer(1);
    answer.front() = {.store = store, .name = store->name(), .round = round};
    const auto asked = asked_.emplace(store, parts_.clock.steady()).first;
    ++under_way_;
    lock.unlock();
    try {
      store->calls.submit_own([this, store, answer = std::move(answer)]() mutable noexcept {
        count(store, std::move(answer));
      });
    } catch (...) {
      asked_.erase(asked);
      throw;
    }
    lock.lock();
  }
  (void)wait_for_answers(stop, until, 0);
}

bool EventStreams::wait_for_answers(const std::stop_token& stop, SteadyTime until,
                                    std::size_t left) {
  bool is_time = false;
  while (under_way_ > left && !is_time && !stop.stop_requested()) {
    is_time = !answered_.wait_until(answers_mutex_, until);
  }
  return under_way_ <= left && !stop.stop_requested();
}

void EventStreams::count(const ServedStorePtr& store, std::list<Answer> answer) noexcept {
  const SteadyTime began = parts_.clock.steady();
  Answer& filled = answer.front();
  try {
    count(*store, filled);
  } catch (const std::bad_alloc&) {
    filled.health.status = HealthStatus::unavailable;  // there is no memory for a text
  }
  filled.took = std::chrono::ceil<Duration>(parts_.clock.steady() - began);
  const detail::Lock lock(answers_mutex_);
  if (filled.round == round_) --under_way_;
  answers_.splice(answers_.end(), answer);
  answered_.notify_all();
}

void EventStreams::count(ServedStore& store, Answer& answer) try {
  answer.health = store.ask_health();
  if (answer.health.status == HealthStatus::unavailable) return;
  for (ServedQueue* queue : {&store.inbox, &store.outbox, &store.deliveries}) {
    QueueStats stats = queue->operations.stats();
    store.metrics().on_stats(queue->kind, stats, parts_.clock.now());
    answer.samples.push_back({answer.name, to_string(queue->kind), std::move(stats)});
  }
} catch (const std::exception& failure) {
  answer.health = {HealthStatus::unavailable, failure.what()};
  store.note_health(answer.health);
}

Duration EventStreams::take_answers(std::vector<QueueSample>& samples) {
  std::list<Answer> answers;
  {
    const detail::Lock lock(answers_mutex_);
    answers.swap(answers_);
  }
  answers.sort([](const Answer& left, const Answer& right) { return left.name < right.name; });
  for (const Answer& answer : answers) asked_.erase(answer.store);  // whatever fails below
  Duration took{0};
  for (Answer& answer : answers) {
    // A store that hung was not counting all that time.
    took += std::min(answer.took, kRoundLength);
    const bool is_busy = std::ranges::any_of(answer.samples, [](const QueueSample& sample) {
      return sample.stats.total().unfinished() > 0;
    });
    if (is_busy) {
      busy_.insert(answer.name);
    } else {
      busy_.erase(answer.name);
    }
    note_health(answer.name, answer.health);
    // The store may have been removed meanwhile.
    if (const ServedStorePtr store = answer.store.lock()) store->note_health(answer.health);
    std::ranges::move(answer.samples, std::back_inserter(samples));
  }
  return took;
}

void EventStreams::give_up_waiting() {
  const SteadyTime long_ago = parts_.clock.steady() - kHangsAfter;
  std::erase_if(asked_, [](const auto& entry) { return entry.first.expired(); });
  for (const auto& [asked, since] : asked_) {
    const ServedStorePtr store = asked.lock();
    if (!store || since > long_ago) continue;
    const Health health{HealthStatus::unavailable, "it does not answer"};
    store->note_health(health);
    note_health(store->name(), health);
  }
}

void EventStreams::note_health(const std::string& name, const Health& health) {
  if (health.status != HealthStatus::unavailable) {
    failing_.erase(name);
  } else if (failing_.insert(name).second) {
    parts_.logger.log(LogLevel::warning, "the store does not answer",
                      {{"store", name}, {"reason", health.detail}});
  }
}

void EventStreams::show_health(const std::vector<ServedStorePtr>& stores) {
  const std::vector<MemberState> states = stores_.set().states();
  std::vector<StoreUp> all;
  all.reserve(states.size());
  for (const MemberState& state : states) {
    all.push_back({state.name, state.open && !failing_.contains(state.name)});
  }
  parts_.metrics.on_stores(all);
  // Forgets the stores that are gone.
  if (failing_.empty() && busy_.empty()) return;
  std::set<std::string> names;
  for (const ServedStorePtr& store : stores) names.insert(store->name());
  const auto is_gone = [&](const std::string& name) { return !names.contains(name); };
  std::erase_if(failing_, is_gone);
  std::erase_if(busy_, is_gone);
}

}  // namespace oncebox::server
