#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "oncebox/clock.hpp"

namespace oncebox::engine {

/// What a call to a store is for. An earlier kind goes first: a settlement frees what others wait
/// for, and a lease that is not kept lapses.
enum class CallKind : std::uint8_t { settle, keep, call };
inline constexpr std::size_t kCallKinds = 3;

struct CallLimits {
  /// Calls under way on one database server, those that hang included.
  std::size_t per_server;
  /// So many of them are for stores that have no call under way. Settling and keeping are exempt.
  std::size_t kept_for_idle_stores = 0;
  /// Calls under way on all servers that are well; half as many, at least one, run beside them on
  /// all servers in trouble together. Calls that hang do not count.
  std::size_t in_all = kAnyNumber;
  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max() / 4;
  /// So many of them are for servers that have no call under way.
  std::size_t kept_for_idle_servers = 0;
  /// A call that lasts this long hangs. Without it no call ever does: each counts until it ends.
  std::optional<Duration> hangs_after = std::nullopt;
};

/// How a call ended: what is known of the store, and when the same is to be called again.
struct CallEnded {
  enum class Store { is_well, failed, unknown };

  Store store = Store::is_well;
  SteadyTime again = SteadyTime::max();  ///< never by itself
};

/// Decides which call to which store begins next, so that a database server that hangs holds up
/// itself and no other. A value without threads and clocks: its driver locks, tells the time, and
/// makes the calls. Nothing but `add`, and making lanes and slots, allocates or throws.
///
/// **Order.** Kinds in their order; within a kind servers take turns, and on a server its lanes,
/// unless there is a chooser.
///
/// **Trouble.** A store or a server is in trouble while a call to it hangs, and from when one
/// failed until one succeeds. Stores in trouble share half of the calls of their server, at least
/// one.
class CallPlan {
 private:
  struct Call;
  struct Server;
  struct Want;

 public:
  /// The calls about one store. It is part of a plan from `add` to `remove`, and stays where it is.
  class Lane {
   public:
    Lane();
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    /// No call is under way, and none that was posted waits.
    [[nodiscard]] bool is_quiet() const noexcept { return calls_ == 0 && posted_ == 0; }

   private:
    friend class CallPlan;

    [[nodiscard]] bool is_in_trouble() const noexcept { return has_failed_ || hanging_ > 0; }

    Server* server_ = nullptr;
    std::size_t calls_ = 0;  ///< under way
    std::size_t hanging_ = 0;
    std::size_t posted_ = 0;  ///< and not begun
    std::size_t width_ = 1;
    bool has_failed_ = false;
    std::array<std::unique_ptr<Want>, kCallKinds> wants_;
  };

  /// Decides which lane makes the next call of the kind `call`, instead of taking turns. Its calls
  /// come from within those to the plan, and must not call it but for `may_choose`.
  class Chooser {
   public:
    virtual ~Chooser() = default;
    /// A call of this lane is wanted and none is under way: it may begin, as far as the lane goes.
    virtual void on_ready(Lane& lane) noexcept = 0;
    /// One of the lanes that `may_choose` allows. Null: none of them, until a call is wanted on
    /// their server or ends there, or until `reconsider`.
    virtual Lane* choose() noexcept = 0;
  };

  /// Room for one call under way. A thread has one.
  class Slot {
   public:
    Slot();
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    // Of the call under way.
    [[nodiscard]] Lane& lane() const noexcept;
    [[nodiscard]] CallKind kind() const noexcept;
    [[nodiscard]] bool is_posted() const noexcept;

   private:
    friend class CallPlan;
    std::list<Call> free_;
    const std::list<Call>::iterator call_;
  };

  /// The chooser is borrowed. Without one lanes take turns.
  explicit CallPlan(const CallLimits& limits, Chooser* chooser = nullptr) noexcept;
  ~CallPlan();
  CallPlan(const CallPlan&) = delete;
  CallPlan& operator=(const CallPlan&) = delete;

  /// `width`: how many calls of the kind `call` run at the same time; of the others one does.
  void add(Lane& lane, const std::string& server, std::size_t width = 1);
  /// The lane is quiet.
  void remove(Lane& lane) noexcept;
  void set_width(Lane& lane, std::size_t width) noexcept;

  // After a stop these do nothing.

  /// A call of this kind is to begin; while one runs: once more. Wanted twice is wanted once.
  void want(Lane& lane, CallKind kind) noexcept;
  /// The same no later than then.
  void want_at(Lane& lane, CallKind kind, SteadyTime time) noexcept;
  /// It is not, now or later.
  void unwant(Lane& lane, CallKind kind) noexcept;
  /// One more call of the kind `call`, beside those that are wanted. False after a stop.
  bool post(Lane& lane) noexcept;
  /// Calls that were posted and have not begun never will.
  void unpost(Lane& lane) noexcept;

  /// While the chooser chooses: whether it may choose this one.
  [[nodiscard]] bool may_choose(const Lane& lane) const noexcept;
  /// The chooser is asked again.
  void reconsider() noexcept;

  /// What is wanted now, or posted, begins without regard to limits; nothing else does.
  void stop() noexcept;
  /// Nothing begins any more.
  void drop() noexcept;

  /// Begins the next call, if there is one that may.
  bool begin_next(Slot& slot, SteadyTime now) noexcept;
  /// Whether `begin_next` would begin one, unless the time changes that, or the chooser passes it
  /// over.
  [[nodiscard]] bool has_next() const noexcept;
  /// When the time alone may let a call begin.
  [[nodiscard]] SteadyTime next_change() const noexcept;
  /// `ended.again` counts for calls that were wanted.
  void end(Slot& slot, const CallEnded& ended) noexcept;

 private:
  using Timers = std::multimap<SteadyTime, Want*>;
  enum class State { open, stopped, dropped };

  void note_time(SteadyTime now) noexcept;
  void note_hanging(Call& call) noexcept;
  void note_trouble(Server& server) noexcept;
  void note_trouble(Lane& lane, bool was_in_trouble) noexcept;
  void cancel_timer(Want& want) noexcept;
  /// Puts it among those that are ready, or takes it out.
  void update(Want& want) noexcept;
  void give_turn_away(Want& want) noexcept;
  void set_wanted(Want& want) noexcept;
  /// The first one of this kind that may begin on this server, if there is one.
  [[nodiscard]] Want* find_next(const Server& server, std::size_t kind) const noexcept;
  [[nodiscard]] Want* choose_next() noexcept;
  [[nodiscard]] Want* choose_next(Server& server, std::size_t kind) noexcept;
  [[nodiscard]] bool has_room(const Server& server) const noexcept;
  [[nodiscard]] bool has_room(const Want& want) const noexcept;

  const CallLimits limits_;
  const std::size_t in_trouble_at_most_;
  Chooser* const chooser_;
  const Server* choosing_for_ = nullptr;
  State state_ = State::open;
  std::map<std::string, std::unique_ptr<Server>> servers_;
  std::array<std::list<Server*>, kCallKinds> turns_;  ///< those with lanes that are ready
  Timers timers_;
  SteadyTime now_{};         ///< as it was told last
  std::list<Call> running_;  ///< those that do not hang, the longest first
  std::list<Call> hanging_;
  std::size_t running_well_ = 0;     ///< of `running_`, on servers that are well
  std::size_t running_trouble_ = 0;  ///< and on those in trouble
};

}  // namespace oncebox::engine
