#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ledger.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "world.hpp"

namespace oncebox::simulation {

/// A bug that a test plants in the stores, to see that the simulation finds it.
enum class Planted {
  nothing,
  holds_nothing,   ///< a claim forgets to take the lease: others get the same message
  tells_nobody,    ///< it says that it notifies, and does not
  loses_messages,  ///< what is claimed is removed: it never comes again
  never_answers,   ///< a call that hangs never ends
};

/// A store as it is in its database, for all processes.
struct Backend {
  Backend(std::string its_name, std::string its_server, bool tells, const Clock& clock)
      : name(std::move(its_name)), server(std::move(its_server)), notifies(tells), store(clock) {}

  const std::string name;
  const std::string server;
  const bool notifies;
  memory::MemoryStore store;
};

/// How a database server looks to one process. A change holds for the calls that begin after it,
/// but a call that hangs goes on when the hanging ends.
struct Weather {
  enum class Kind {
    fine,
    slow,
    failing,      ///< two calls in three
    down,         ///< every call
    not_keeping,  ///< every call that keeps leases
    hanging,
  };
  static constexpr std::size_t kKinds = 6;

  Kind kind = Kind::fine;
  SteadyTime fine_since{};
};

/// The calls of one process to one database server.
class Link {
 public:
  Link(World& world, std::string server, std::size_t most_calls, Planted planted);

  [[nodiscard]] const std::string& server() const noexcept { return server_; }
  void set_weather(Weather::Kind kind);
  [[nodiscard]] const Weather& weather() const noexcept { return weather_; }
  /// The store is opened anew: what was known of it is forgotten.
  void on_opened(const std::string& store) { stores_.erase(store); }
  /// It was removed: a settlement that fails is given up after a while, and then is no trouble.
  void on_removed(const std::string& store);
  /// Whether calls to stores in trouble are counted. Not while a process is paused, when looking
  /// for work may succeed without a call, nor while it stops, when a settlement that fails is given
  /// up.
  void count_trouble(bool counts);

  /// Makes a call, early or late, once, or not at all. In a fiber.
  void call(const std::string& store, std::string_view name, const std::function<void()>& effect);

  // Work is what one thread does for a store: a call, or several that belong together.

  /// The work of the fiber that runs, which has called a store, has ended.
  void on_work_ended();
  [[nodiscard]] std::size_t works_under_way() const noexcept { return under_way_; }
  [[nodiscard]] bool is_under_way(const std::string& store, std::string_view kind) const;
  [[nodiscard]] bool is_claiming() const;
  /// Whether the last one failed, so that the next one comes later.
  [[nodiscard]] bool has_failed_to_claim(const std::string& store) const;
  [[nodiscard]] bool has_failed_to_settle(const std::string& store) const;

 private:
  struct State {
    std::map<std::string, std::size_t, std::less<>> under_way;  ///< by kind
    bool has_failed_to_claim = false;
    bool has_failed_to_settle = false;
    bool is_removed = false;
    bool is_in_trouble = false;  ///< the last claim or settlement failed
  };

  void begin_work(const std::string& store, std::string_view name);
  [[nodiscard]] std::size_t calls_in_trouble() const;
  void travel();
  [[nodiscard]] bool fails(std::string_view name);

  World& world_;
  const std::string server_;
  const std::size_t most_calls_;
  const Planted planted_;
  Weather weather_;
  bool counts_trouble_ = true;
  std::size_t under_way_ = 0;
  std::map<std::string, State> stores_;
};

/// A store as one process has opened it.
class LinkedStore final : public ForwardingStore {
 public:
  LinkedStore(Backend& backend, Link& link, World& world, Ledger& ledger, Planted planted);

  [[nodiscard]] QueueStore& inbox() override { return inbox_; }
  [[nodiscard]] Capabilities capabilities() const override;

 private:
  class Queue final : public ForwardingQueueStore {
   public:
    Queue(Backend& backend, Link& link, World& world, Ledger& ledger, Planted planted);

   private:
    void forward(std::string_view name, const std::function<void()>& call) override;
    ClaimResult do_claim(const ClaimRequest& request) override;
    std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override;
    std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) override;
    void do_listen(std::weak_ptr<WorkListener> listener) override;
    void spoil(std::span<const ClaimedMessage> claimed);

    Backend& backend_;
    Link& link_;
    World& world_;
    Ledger& ledger_;
    const Planted planted_;
  };

  Backend& backend_;
  Queue inbox_;
};

}  // namespace oncebox::simulation
