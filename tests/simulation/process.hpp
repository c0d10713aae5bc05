#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "admission.hpp"
#include "backend.hpp"
#include "counters.hpp"
#include "dead_handlers.hpp"
#include "fair_ready_queue.hpp"
#include "handler_calls.hpp"
#include "idle_watch.hpp"
#include "ledger.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/dispatch/store_selection.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "routes.hpp"
#include "set_scheduler.hpp"
#include "worker_pool.hpp"
#include "world.hpp"

namespace oncebox::simulation {

/// Handled by at most two at a time of a process; the other topics by all of its workers.
inline const Topic kLimitedTopic{"limited.work"};
inline constexpr std::size_t kLimit = 2;
inline const Topic kPlainTopic{"plain.work"};
inline const Topic kUnhandledTopic{"nobody.handles"};

/// A process with a dispatcher over many stores: the parts of a `SetDispatcher`, whose threads are
/// actors of the world. Watches that the dispatcher keeps its limits and forgets nothing.
class Process {
 public:
  Process(World& world, Ledger& ledger, std::string name, std::uint64_t number, Planted planted);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// False when a part of it is still finished with, from the last time.
  bool open(Backend& backend);
  void remove(Backend& backend);
  [[nodiscard]] bool has_open(const Backend& backend) const;
  /// All that were removed are let go.
  [[nodiscard]] bool has_let_go() const;

  void set_weather(const std::string& server, Weather::Kind kind);
  void pause();
  void resume();
  void wake();

  /// Begins to do what `SetDispatcher::stop` does, and then its destructor.
  void stop(const StopOptions& options);
  [[nodiscard]] bool is_stopping() const noexcept { return is_stopping_; }
  [[nodiscard]] bool has_stopped() const noexcept { return has_stopped_; }

  /// What has to hold whenever nothing is left to do at this time.
  void check();

 private:
  class LeaseWatch;
  struct Opened {
    Backend* backend = nullptr;
    std::shared_ptr<MemberStore> member;  ///< null: removed
    std::weak_ptr<MemberStore> whole;
    std::map<MessageKey, SteadyTime> claimable_since;
  };

  [[nodiscard]] static SetDispatcherOptions options_of(World& world, std::uint64_t number);
  [[nodiscard]] Handlers handlers();
  [[nodiscard]] std::unique_ptr<StoreSelection> selection_of(World& world);
  void handle(const ClaimedMessage& message, HandlerContext& context);
  void on_lease_lost(const std::string& store, const MessageKey& key);

  Link& link_to(const std::string& server);
  void run_stop(const StopOptions& options);
  void add_workers();
  bool run_worker();
  bool run_call();

  [[nodiscard]] bool is_well(const Opened& opened);
  [[nodiscard]] bool is_due_to_be_claimed(const MessageRecord& record) const;
  void check_claims(Opened& opened);
  void check_settlements(const Opened& opened);

  World& world_;
  Ledger& ledger_;
  const std::string name_;
  const Planted planted_;
  const SetDispatcherOptions options_;
  NullLogger logger_;
  std::map<std::string, std::unique_ptr<Observer>> observers_;
  const ObserverOfStore observer_;
  bool drains_first_ = false;
  const std::unique_ptr<StoreSelection> selection_;
  dispatcher::Counters counters_;
  dispatcher::Routes routes_;
  const dispatcher::DeadHandlers dead_handlers_;
  dispatcher::FairReadyQueue ready_;
  dispatcher::IdleWatch idle_;
  std::shared_ptr<dispatcher::SetScheduler> scheduler_;
  dispatcher::HandlerCalls calls_;
  dispatcher::WorkerPool workers_;
  dispatcher::Admission admission_;

  std::map<std::string, std::unique_ptr<Link>> links_;
  std::map<std::string, Opened> stores_;
  std::vector<std::shared_ptr<Actor>> actors_;
  std::set<std::size_t> free_workers_;
  bool is_paused_ = false;
  bool is_stopping_ = false;
  bool has_stopped_ = false;
};

}  // namespace oncebox::simulation
