#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox {

/// A store in memory whose inbox can be made to fail, and that tells when it is closed.
class ProbedStore final : public ForwardingStore {
 public:
  ProbedStore(const Clock& clock, std::function<void()> on_close)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)),
        on_close_(std::move(on_close)) {}
  ~ProbedStore() override { on_close_(); }

  [[nodiscard]] QueueStore& inbox() override { return probe_.store(); }

  [[nodiscard]] StoreProbe& probe() { return probe_; }
  [[nodiscard]] QueueStore& queue() { return below().inbox(); }

 private:
  std::function<void()> on_close_;
  StoreProbe probe_{below().inbox()};
};

/// A dispatcher over stores that a test lists.
class SetDispatcherTest : public ::testing::Test {
 protected:
  /// Ends the dispatcher before what its handlers use: the variables of the test that were there
  /// when it was started.
  class [[nodiscard]] Ending {
   public:
    explicit Ending(SetDispatcherTest& test) : test_(test) {}
    ~Ending() {
      test_.gate_.open();
      test_.dispatcher_.reset();
    }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    SetDispatcherTest& test_;
  };

  void list(std::vector<StoreLocation> locations) {
    listed_.change([&](auto& all) { all = std::move(locations); });
    stores_.refresh();
  }
  [[nodiscard]] ProbedStore& store(const std::string& name) {
    return dynamic_cast<ProbedStore&>(stores_.find(name)->store());
  }
  void enqueue(const std::string& name, const std::string& id,
               const std::string& topic = "order.created") {
    store(name).queue().enqueue(
        {.key = {"shop", id}, .topic = Topic(topic), .payload = "secret-payload"});
  }
  void enqueue_many(const std::string& name, int count) {
    for (int i = 0; i < count; ++i) enqueue(name, "m" + std::to_string(i));
  }

  /// Notes the store of each message that is handled.
  void note_stores() {
    handlers_.on("*",
                 [this](const ClaimedMessage&, HandlerContext& context) { note(context.store()); });
  }
  void note(std::string_view store) {
    handled_.change([&](auto& all) { all.emplace_back(store); });
  }
  [[nodiscard]] bool wait_for_handled(std::size_t count) {
    return handled_.wait([&](const auto& all) { return all.size() >= count; });
  }
  /// Lets time pass, little by little, until it holds.
  template <class Condition>
  [[nodiscard]] bool holds_in_time(Condition holds) {
    return eventually([&] {
      if (holds()) return true;
      clock_.advance(Duration{1});
      return false;
    });
  }
  [[nodiscard]] std::string handled() const {
    std::string text;
    for (const std::string& store : handled_.get()) text += store;
    return text;
  }
  [[nodiscard]] std::optional<Status> status(const std::string& name, const std::string& id) {
    const auto record = store(name).queue().find(MessageKey{"shop", id});
    return record ? std::optional(record->status) : std::nullopt;
  }

  void make_dispatcher(const SetDispatcherOptions& options,
                       std::unique_ptr<StoreSelection> selection) {
    dispatcher_ = std::make_unique<SetDispatcher>(
        stores_, handlers_, std::move(selection), options,
        SurroundingsOfStores{.logger = logger_, .clock = clock_, .tracer = tracer_});
  }
  Ending make(const SetDispatcherOptions& options = {},
              std::unique_ptr<StoreSelection> selection = round_robin()) {
    make_dispatcher(options, std::move(selection));
    return Ending(*this);
  }
  Ending start(const SetDispatcherOptions& options = {},
               std::unique_ptr<StoreSelection> selection = round_robin()) {
    make_dispatcher(options, std::move(selection));
    dispatcher_->start();
    return Ending(*this);
  }
  void advance(Duration by) {
    clock_.advance(by);
    dispatcher_->wake();
  }
  /// One message at a time from the claim to the end, so that the order of claims shows.
  [[nodiscard]] static SetDispatcherOptions one_by_one(std::size_t batch) {
    return {.dispatcher = {.workers = 1, .batch_size = batch, .max_buffered = batch},
            .calls_per_server = 1};
  }

  testing::ManualClock clock_;
  RecordingLogger logger_;
  Observer observer_;
  Tracer* tracer_ = nullptr;
  Gate gate_;
  Watched<std::vector<std::string>> handled_;
  Watched<std::set<std::string>> closed_;
  Watched<std::vector<StoreLocation>> listed_;
  StoreSet stores_{[this] { return listed_.get(); },
                   [this](const StoreLocation& location) -> std::unique_ptr<Store> {
                     return std::make_unique<ProbedStore>(clock_, [this, url = location.url] {
                       closed_.change([&](auto& urls) { urls.insert(url); });
                     });
                   },
                   {.refresh_interval = std::chrono::hours{20},
                    .first_retry = std::chrono::hours{20},
                    .max_retry = std::chrono::hours{20}},
                   {.logger = logger_}};
  Handlers handlers_;
  std::unique_ptr<SetDispatcher> dispatcher_;
};

}  // namespace oncebox
