#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/defaults.hpp"
#include "oncebox/store.hpp"
#include "oncebox/store_location.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox {

/// Opens a store; `open_store` with the URL, as a rule. Throws when it cannot be reached. Called by
/// several threads at once.
using OpenStore = std::function<std::unique_ptr<Store>(const StoreLocation& location)>;

/// A store of a set. It stays open until its last pointer goes, also after the set has let it go.
class MemberStore {
 public:
  /// `server` stands for the database server that it lives on: see `database_server`.
  MemberStore(std::string name, std::string server, std::unique_ptr<Store> store);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& server() const noexcept { return server_; }
  [[nodiscard]] Store& store() noexcept { return *store_; }

 private:
  const std::string name_;
  const std::string server_;
  const std::unique_ptr<Store> store_;
};

using MemberStorePtr = std::shared_ptr<MemberStore>;

/// Hears of the stores that come and go. The calls come one after the other, from a thread of the
/// set or from one that refreshes it, and hold up the set: they only take note.
class StoreSetListener {
 public:
  virtual ~StoreSetListener() = default;
  virtual void on_opened(const MemberStorePtr& member) noexcept = 0;
  /// The set has let it go. It is closed when everybody else has finished with it and let it go.
  virtual void on_removed(const MemberStorePtr& member) noexcept = 0;
};

/// Tells of stores that come and go: a `StoreSet`, or somebody who passes on some of its stores.
class StoreSource {
 public:
  virtual ~StoreSource() = default;
  StoreSource(const StoreSource&) = delete;
  StoreSource& operator=(const StoreSource&) = delete;

  /// Tells the listener of all that are open, and from now on of what changes, until it is gone.
  virtual void listen(const std::shared_ptr<StoreSetListener>& listener) = 0;

 protected:
  StoreSource() = default;
};

struct StoreSetOptions {
  /// In the set whatever a discovery tells, also when it fails.
  std::vector<StoreLocation> always = {};
  Duration refresh_interval = defaults::kDiscoveryInterval;
  /// When to try again to open a store that could not be reached: so long after the first failure,
  /// and twice as long after each further one, up to the other.
  Duration first_retry = std::chrono::seconds{1};
  Duration max_retry = std::chrono::minutes{1};
  std::size_t parallel_opens = 8;  ///< stores that are opened, or asked for their health, at once
  /// How long a refresh, also the first one, waits for the stores that it opens. Those that take
  /// longer come when they come.
  Duration open_wait = std::chrono::seconds{10};
  /// When a store cannot be reached and that takes so long to find out, its database server counts
  /// as silent: the others on it are not tried before the next time.
  Duration slow_open = std::chrono::seconds{1};
};

struct MemberHealth {
  std::string name;
  Health health;
};

/// A store of a set as the set knows it, without asking it.
struct MemberState {
  std::string name;
  MemberStorePtr open;  ///< null while it is down, or being opened
  std::string failure;  ///< why it is
};

struct StoreSetHealth {
  Health discovery;                   ///< degraded while the set is the one of an earlier discovery
  std::vector<MemberHealth> members;  ///< by name
};

/// Many stores in one process, each by its name; they may come and go while it runs.
///
/// **Discovery.** It runs when the set is made, then every `refresh_interval`, and on demand. New
/// stores are opened, those that are gone are let go, one whose URL has changed is opened anew, and
/// all the others stay the objects that they are. A discovery that fails, or names a store twice,
/// changes nothing. The names change in one step.
///
/// **Failures.** A store that cannot be opened does not hinder the others: it is tried again, ever
/// less often, and is `unavailable` in health and to callers that ask for it. One that hangs while
/// it is opened or closed holds up neither discovery nor the others; of a database server that does
/// not answer one store is tried at a time.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time.
class StoreSet final : public StoreSource {
 public:
  /// A set that discovery keeps up to date. A first discovery that fails leaves it empty, until one
  /// succeeds. Of the surroundings, logger and clock are used. Throws `out_of_range` for an
  /// option that makes no sense.
  StoreSet(StoreDiscovery discovery, OpenStore open, const StoreSetOptions& options = {},
           const Surroundings& surroundings = {});
  /// A set that stays as it is. Throws `invalid_argument` for a bad name or one that is there
  /// twice.
  StoreSet(std::vector<StoreLocation> locations, OpenStore open,
           const StoreSetOptions& options = {}, const Surroundings& surroundings = {});
  /// Waits for the stores that are being opened right now, and for those that are being closed.
  ~StoreSet() override;

  /// Discovers now, and opens what is to be opened, once for all threads that ask at the same time;
  /// waits for that no longer than `open_wait`. Throws what the discovery threw.
  RefreshResult refresh();

  /// The store of this name. Throws `not_found` when the set has none, and `unavailable` while it
  /// is not open, or is not known and no discovery has succeeded yet.
  [[nodiscard]] MemberStorePtr find(std::string_view name) const;
  /// All that are open, by name.
  [[nodiscard]] std::vector<MemberStorePtr> members() const;
  /// The names of all, open or not, in order.
  [[nodiscard]] std::vector<std::string> names() const;
  /// All, open or not, by name.
  [[nodiscard]] std::vector<MemberState> states() const;
  /// How often a name has come or gone, so that a keeper of the names knows when to ask again.
  [[nodiscard]] std::uint64_t changes_of_names() const noexcept;

  /// Throws `unavailable` until a discovery has succeeded: there may be stores that the set does
  /// not know then, and a choice among all of them would be wrong.
  void require_discovered() const;

  /// Asks every store. Does not throw for one that is down.
  [[nodiscard]] StoreSetHealth health();

  /// The part of it that asks no store.
  [[nodiscard]] Health discovery_health() const;

  void listen(const std::shared_ptr<StoreSetListener>& listener) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox
