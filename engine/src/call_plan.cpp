#include "oncebox/engine/call_plan.hpp"

#include <algorithm>
#include <utility>

namespace oncebox::engine {

namespace {

std::size_t index(CallKind kind) noexcept { return static_cast<std::size_t>(kind); }

}  // namespace

struct CallPlan::Call {
  Want* want = nullptr;
  SteadyTime began = {};
  bool is_posted = false;
  bool hangs = false;
};

/// One kind of call of a lane. Its entries in lists and timers are made with it and moved in and
/// out, so that noting a wish allocates nothing.
struct CallPlan::Want {
  Want(Lane& of, CallKind what) : lane(of), kind(what), resting{this}, place(resting.begin()) {
    Timers one;
    one.emplace(SteadyTime::max(), this);
    timer = one.extract(one.begin());
  }

  [[nodiscard]] std::size_t width() const noexcept {
    return kind == CallKind::call ? lane.width_ : 1;
  }
  [[nodiscard]] bool has_posted() const noexcept {
    return kind == CallKind::call && lane.posted_ > 0;
  }

  Lane& lane;
  const CallKind kind;
  std::size_t running = 0;
  bool is_wanted = false;
  bool is_ready = false;
  std::list<Want*> resting;  ///< holds the entry while it is not in `Server::ready`
  const std::list<Want*>::iterator place;
  Timers::node_type timer;  ///< empty while it is in `timers_`, at `timer_place`
  Timers::iterator timer_place = {};
};

/// A database server: there as long as it has lanes.
struct CallPlan::Server {
  Server() {
    for (std::size_t kind = 0; kind < kCallKinds; ++kind) {
      resting.at(kind).push_back(this);
      places.at(kind) = resting.at(kind).begin();
    }
  }

  [[nodiscard]] std::size_t running() const noexcept { return calls - hanging; }

  std::map<std::string, std::unique_ptr<Server>>::iterator self = {};
  std::size_t lanes = 0;
  std::size_t calls = 0;             ///< under way
  std::size_t hanging = 0;           ///< of these
  std::size_t calls_in_trouble = 0;  ///< those under way to stores in trouble
  bool has_failed = false;           ///< the last call that told
  bool is_in_trouble = false;
  bool is_passed_over = false;  ///< by the chooser
  std::array<std::list<Want*>, kCallKinds> ready;
  std::array<std::list<Server*>, kCallKinds> resting;  ///< holds the entry while not in `turns_`
  std::array<std::list<Server*>::iterator, kCallKinds> places;
};

CallPlan::Lane::Lane() {
  for (const CallKind kind : {CallKind::settle, CallKind::keep, CallKind::call}) {
    wants_.at(index(kind)) = std::make_unique<Want>(*this, kind);
  }
}

CallPlan::Lane::~Lane() = default;

CallPlan::Slot::Slot() : free_(1), call_(free_.begin()) {}
CallPlan::Slot::~Slot() = default;

CallPlan::Lane& CallPlan::Slot::lane() const noexcept { return call_->want->lane; }
CallKind CallPlan::Slot::kind() const noexcept { return call_->want->kind; }
bool CallPlan::Slot::is_posted() const noexcept { return call_->is_posted; }

CallPlan::CallPlan(const CallLimits& limits, Chooser* chooser) noexcept
    : limits_(limits),
      in_trouble_at_most_(std::max<std::size_t>(limits.in_all / 2, 1)),
      chooser_(chooser) {}

CallPlan::~CallPlan() = default;

void CallPlan::add(Lane& lane, const std::string& server, std::size_t width) {
  auto found = servers_.find(server);
  if (found == servers_.end()) {
    found = servers_.emplace(server, std::make_unique<Server>()).first;
    found->second->self = found;
  }
  ++found->second->lanes;
  lane.server_ = found->second.get();
  lane.width_ = width;
}

void CallPlan::remove(Lane& lane) noexcept {
  for (const auto& want : lane.wants_) unwant(lane, want->kind);
  Server& server = *std::exchange(lane.server_, nullptr);
  if (--server.lanes == 0) servers_.erase(server.self);
}

void CallPlan::set_width(Lane& lane, std::size_t width) noexcept {
  lane.width_ = width;
  update(*lane.wants_[index(CallKind::call)]);
}

// What is wanted --------------------------------------------------------------------------------

void CallPlan::want(Lane& lane, CallKind kind) noexcept {
  if (state_ != State::open) return;
  set_wanted(*lane.wants_[index(kind)]);
}

void CallPlan::set_wanted(Want& want) noexcept {
  cancel_timer(want);
  want.is_wanted = true;
  update(want);
  if (want.kind == CallKind::call) want.lane.server_->is_passed_over = false;
}

void CallPlan::want_at(Lane& lane, CallKind kind, SteadyTime time) noexcept {
  Want& want = *lane.wants_[index(kind)];
  if (state_ != State::open || want.is_wanted || time == SteadyTime::max()) return;
  if (time <= now_) return set_wanted(want);
  if (want.timer.empty() && want.timer_place->first <= time) return;
  cancel_timer(want);
  want.timer.key() = time;
  want.timer_place = timers_.insert(std::move(want.timer));
}

void CallPlan::unwant(Lane& lane, CallKind kind) noexcept {
  Want& want = *lane.wants_[index(kind)];
  cancel_timer(want);
  want.is_wanted = false;
  update(want);
}

bool CallPlan::post(Lane& lane) noexcept {
  if (state_ != State::open) return false;
  ++lane.posted_;
  update(*lane.wants_[index(CallKind::call)]);
  return true;
}

void CallPlan::unpost(Lane& lane) noexcept {
  lane.posted_ = 0;
  update(*lane.wants_[index(CallKind::call)]);
}

void CallPlan::cancel_timer(Want& want) noexcept {
  if (want.timer.empty()) want.timer = timers_.extract(want.timer_place);
}

void CallPlan::update(Want& want) noexcept {
  const bool is_ready = (want.is_wanted || want.has_posted()) && want.running < want.width();
  if (is_ready == want.is_ready) return;
  want.is_ready = is_ready;
  Server& server = *want.lane.server_;
  const std::size_t kind = index(want.kind);
  std::list<Want*>& ready = server.ready[kind];
  if (is_ready) {
    if (ready.empty()) {
      turns_[kind].splice(turns_[kind].end(), server.resting[kind], server.places[kind]);
    }
    ready.splice(ready.end(), want.resting, want.place);
    if (chooser_ != nullptr && want.kind == CallKind::call) chooser_->on_ready(want.lane);
  } else {
    want.resting.splice(want.resting.end(), ready, want.place);
    if (ready.empty()) {
      server.resting[kind].splice(server.resting[kind].end(), turns_[kind], server.places[kind]);
    }
  }
}

void CallPlan::give_turn_away(Want& want) noexcept {
  if (!want.is_ready) return;
  Server& server = *want.lane.server_;
  const std::size_t kind = index(want.kind);
  server.ready[kind].splice(server.ready[kind].end(), server.ready[kind], want.place);
}

void CallPlan::stop() noexcept {
  if (state_ == State::open) state_ = State::stopped;
}

void CallPlan::drop() noexcept { state_ = State::dropped; }

// What begins -----------------------------------------------------------------------------------

bool CallPlan::has_room(const Server& server) const noexcept {
  if (state_ != State::open) return true;
  if (server.calls >= limits_.per_server) return false;
  const std::size_t running = running_well_ + running_trouble_;
  if (running >= limits_.in_all + in_trouble_at_most_) return false;
  const std::size_t kept = server.calls > 0 ? limits_.kept_for_idle_servers : 0;
  return server.is_in_trouble ? running_trouble_ < in_trouble_at_most_
                              : running_well_ + kept < limits_.in_all;
}

bool CallPlan::has_room(const Want& want) const noexcept {
  if (state_ != State::open) return true;
  const Server& server = *want.lane.server_;
  if (want.kind == CallKind::call && want.lane.calls_ > 0 &&
      server.calls + limits_.kept_for_idle_stores >= limits_.per_server) {
    return false;
  }
  return !want.lane.is_in_trouble() ||
         server.calls_in_trouble < std::max<std::size_t>(limits_.per_server / 2, 1);
}

CallPlan::Want* CallPlan::find_next(const Server& server, std::size_t kind) const noexcept {
  const bool is_passed_over =
      state_ == State::open && server.is_passed_over && kind == index(CallKind::call);
  if (is_passed_over || !has_room(server)) return nullptr;
  const auto& ready = server.ready[kind];
  const auto found =
      std::ranges::find_if(ready, [this](const Want* want) { return has_room(*want); });
  return found == ready.end() ? nullptr : *found;
}

bool CallPlan::has_next() const noexcept {
  if (state_ == State::dropped) return false;
  for (std::size_t kind = 0; kind < kCallKinds; ++kind) {
    for (const Server* server : turns_[kind]) {
      if (find_next(*server, kind) != nullptr) return true;
    }
  }
  return false;
}

CallPlan::Want* CallPlan::choose_next() noexcept {
  if (state_ == State::dropped) return nullptr;
  for (std::size_t kind = 0; kind < kCallKinds; ++kind) {
    for (Server* server : turns_[kind]) {
      if (Want* const want = choose_next(*server, kind)) return want;
    }
  }
  return nullptr;
}

CallPlan::Want* CallPlan::choose_next(Server& server, std::size_t kind) noexcept {
  Want* const first = find_next(server, kind);
  if (first == nullptr || chooser_ == nullptr || kind != index(CallKind::call) ||
      state_ != State::open) {
    return first;
  }
  choosing_for_ = &server;
  Lane* const chosen = chooser_->choose();
  choosing_for_ = nullptr;
  server.is_passed_over = chosen == nullptr;
  return chosen == nullptr ? nullptr : chosen->wants_[kind].get();
}

bool CallPlan::may_choose(const Lane& lane) const noexcept {
  const Want& want = *lane.wants_[index(CallKind::call)];
  return lane.server_ == choosing_for_ && want.is_ready && has_room(want);
}

void CallPlan::reconsider() noexcept {
  for (const auto& [name, server] : servers_) server->is_passed_over = false;
}

bool CallPlan::begin_next(Slot& slot, SteadyTime now) noexcept {
  note_time(now);
  Want* const want = choose_next();
  if (want == nullptr) return false;
  Lane& lane = want->lane;
  Server& server = *lane.server_;
  const bool is_posted = want->has_posted() && !want->is_wanted;
  *slot.call_ = {.want = want, .began = now, .is_posted = is_posted};
  running_.splice(running_.end(), slot.free_);
  ++want->running;
  ++lane.calls_;
  ++server.calls;
  if (lane.is_in_trouble()) ++server.calls_in_trouble;
  ++(server.is_in_trouble ? running_trouble_ : running_well_);
  if (is_posted) {
    --lane.posted_;
  } else {
    want->is_wanted = false;
  }
  // The other servers have their turn, and the other lanes of this one.
  std::list<Server*>& turns = turns_[index(want->kind)];
  turns.splice(turns.end(), turns, server.places[index(want->kind)]);
  give_turn_away(*want);
  update(*want);
  return true;
}

void CallPlan::end(Slot& slot, const CallEnded& ended) noexcept {
  const Call& call = *slot.call_;
  Want& want = *call.want;
  Lane& lane = want.lane;
  Server& server = *lane.server_;
  const bool was_in_trouble = lane.is_in_trouble();
  if (was_in_trouble) --server.calls_in_trouble;
  if (call.hangs) {
    --lane.hanging_;
    --server.hanging;
  } else {
    --(server.is_in_trouble ? running_trouble_ : running_well_);
  }
  --want.running;
  --lane.calls_;
  --server.calls;
  server.is_passed_over = false;
  if (ended.store != CallEnded::Store::unknown) {
    lane.has_failed_ = server.has_failed = ended.store == CallEnded::Store::failed;
  }
  note_trouble(lane, was_in_trouble);
  note_trouble(server);
  if (!call.is_posted) want_at(lane, want.kind, ended.again);
  update(want);
  slot.free_.splice(slot.free_.end(), call.hangs ? hanging_ : running_, slot.call_);
}

// Time and trouble ------------------------------------------------------------------------------

void CallPlan::note_time(SteadyTime now) noexcept {
  now_ = now;
  while (!timers_.empty() && timers_.begin()->first <= now && state_ == State::open) {
    set_wanted(*timers_.begin()->second);
  }
  while (limits_.hangs_after && !running_.empty() &&
         now - running_.front().began >= *limits_.hangs_after) {
    note_hanging(running_.front());
    hanging_.splice(hanging_.end(), running_, running_.begin());
  }
}

void CallPlan::note_hanging(Call& call) noexcept {
  Lane& lane = call.want->lane;
  Server& server = *lane.server_;
  const bool was_in_trouble = lane.is_in_trouble();
  call.hangs = true;
  --(server.is_in_trouble ? running_trouble_ : running_well_);
  ++lane.hanging_;
  ++server.hanging;
  note_trouble(lane, was_in_trouble);
  note_trouble(server);
}

void CallPlan::note_trouble(Lane& lane, bool was_in_trouble) noexcept {
  if (lane.is_in_trouble() == was_in_trouble) return;
  std::size_t& calls = lane.server_->calls_in_trouble;
  calls = was_in_trouble ? calls - lane.calls_ : calls + lane.calls_;
}

void CallPlan::note_trouble(Server& server) noexcept {
  const bool is_in_trouble = server.has_failed || server.hanging > 0;
  if (std::exchange(server.is_in_trouble, is_in_trouble) == is_in_trouble) return;
  std::size_t& from = is_in_trouble ? running_well_ : running_trouble_;
  std::size_t& to = is_in_trouble ? running_trouble_ : running_well_;
  from -= server.running();
  to += server.running();
}

SteadyTime CallPlan::next_change() const noexcept {
  if (state_ != State::open) return SteadyTime::max();
  SteadyTime next = timers_.empty() ? SteadyTime::max() : timers_.begin()->first;
  const bool is_anything_ready =
      std::ranges::any_of(turns_, [](const auto& servers) { return !servers.empty(); });
  if (limits_.hangs_after && is_anything_ready && !running_.empty()) {
    next = std::min(next, running_.front().began + *limits_.hangs_after);
  }
  return next;
}

}  // namespace oncebox::engine
