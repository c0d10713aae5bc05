#include "oncebox/publish/publishing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "oncebox/publish/delivery.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"
#include "recovery_fixture.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

/// What endpoints got: a line "NAME: ID" for each message. Their URLs have a scheme that servers
/// let pass, too.
class Receivers {
 public:
  using React = std::function<void(const std::string& endpoint, const ClaimedMessage& message)>;

  explicit Receivers(EndpointPublishers& publishers) {
    publishers.on("oncebox+https", [this](const EndpointTarget& target) {
      const std::string name = target.endpoint.name.str();
      return callable_publisher(
          [this, name](const ClaimedMessage& message, HandlerContext&) { take(name, message); });
    });
  }
  void react(React react) {
    react_.change([&](React& current) { current = std::move(react); });
  }
  [[nodiscard]] std::vector<Message> messages() const { return messages_.get(); }
  [[nodiscard]] Lines of(const std::string& endpoint) const {
    Lines ids;
    for (const std::string& line : lines_.get()) {
      if (line.starts_with(endpoint + ": ")) ids.push_back(line.substr(endpoint.size() + 2));
    }
    return ids;
  }
  [[nodiscard]] bool wait_for(const std::string& endpoint, std::size_t count) const {
    return eventually([&] { return of(endpoint).size() >= count; });
  }

 private:
  void take(const std::string& endpoint, const ClaimedMessage& message) {
    if (const React react = react_.get()) react(endpoint, message);
    messages_.change([&](auto& all) { all.push_back(message.message); });
    lines_.change(
        [&](Lines& all) { all.push_back(endpoint + ": " + message.message.key.message_id.str()); });
  }

  Watched<React> react_;
  Watched<std::vector<Message>> messages_;
  Watched<Lines> lines_;
};

class PublishingTest : public OnEachStore {
 protected:
  void add(const std::string& name, const std::vector<TopicPattern>& topics = {"*"}) {
    save_endpoint(*store_, {.name = name, .url = "oncebox+https://" + name, .topics = topics});
  }
  void send(const std::string& id, const std::string& topic = "order.paid",
            const std::optional<PartitionKey>& partition = std::nullopt) {
    Message message = message_of(id, topic);
    message.partition_key = partition;
    store_->outbox().enqueue(message);
  }
  void start(const PublishingOptions& options = {.deliveries = {.workers = 8}}) {
    publishing_ = std::make_unique<Publishing>(*store_, publishers_, options,
                                               Surroundings{logger_, observer_, clock_});
    publishing_->start();
  }
  [[nodiscard]] MessageRecord delivery(const std::string& id, const std::string& endpoint) {
    return store_->deliveries().find(delivery_key({"shop", id}, endpoint)).value();
  }
  [[nodiscard]] bool wait_for_status(const std::string& id, const std::string& endpoint,
                                     Status status) {
    return eventually([&] {
      const auto found = store_->deliveries().find(delivery_key({"shop", id}, endpoint));
      return found && found->status == status;
    });
  }
  [[nodiscard]] bool wait_until_sent(const std::string& id) {
    return eventually([&] {
      return store_->outbox().find(MessageKey{"shop", MessageId(id)})->status == Status::done;
    });
  }
  [[nodiscard]] EndpointStatus status_of(const std::string& name) {
    const EndpointList list = store_->endpoints().list();
    return list.find(name)->status;
  }
  /// Moves the clock until the store says so: retries come when they are due.
  template <class Condition>
  [[nodiscard]] bool in_time(Condition holds) {
    return eventually([&] {
      if (holds()) return true;
      clock_.advance(1s);
      publishing_->wake();
      return false;
    });
  }

  EndpointPublishers publishers_;
  Receivers receivers_{publishers_};
  std::unique_ptr<Store> store_ = make_store();
  RecordingLogger logger_;
  Observer observer_;
  std::unique_ptr<Publishing> publishing_;  // last: its threads use the others
};

TEST_P(PublishingTest, AMessageGoesToEveryEndpointOfItsTopicAsItWasSent) {
  RecordProperty("requirement", "R-37");
  add("crm", {"order.*", "invoice.sent"});
  add("all");
  add("mail", {"mail.*"});
  add("none", {});
  start();
  send("1", "order.paid", PartitionKey("p"));
  ASSERT_TRUE(receivers_.wait_for("crm", 1));
  ASSERT_TRUE(receivers_.wait_for("all", 1));
  ASSERT_TRUE(wait_until_sent("1"));
  ASSERT_TRUE(wait_for_status("1", "crm", Status::done));
  ASSERT_TRUE(wait_for_status("1", "all", Status::done));
  EXPECT_FALSE(store_->deliveries().find(delivery_key({"shop", "1"}, "mail")));
  EXPECT_FALSE(store_->deliveries().find(delivery_key({"shop", "1"}, "none")));
  for (const Message& message : receivers_.messages()) {
    Message sent = message_of("1", "order.paid");
    sent.partition_key = PartitionKey("p");
    EXPECT_EQ(message.key, sent.key);
    EXPECT_EQ(message.topic, sent.topic);
    EXPECT_EQ(message.payload, sent.payload);
    EXPECT_EQ(message.headers, sent.headers);
    EXPECT_EQ(message.partition_key, sent.partition_key);
  }
}

TEST_P(PublishingTest, AMessageThatNoEndpointWantsIsDone) {
  add("mail", {"mail.*"});
  start();
  send("1");
  EXPECT_TRUE(wait_until_sent("1"));
  EXPECT_EQ(store_->deliveries_operator().count({}), 0U);
}

TEST_P(PublishingTest, MessagesThatWaitBecomeDeliveriesTogether) {
  add("crm");
  for (int i = 0; i < 50; ++i) send(std::to_string(i));
  start({.fan_out = {.workers = 1}});
  ASSERT_TRUE(receivers_.wait_for("crm", 50));
  ASSERT_TRUE(eventually([&] { return publishing_->stats().fan_out.handled == 50; }));
  EXPECT_LT(publishing_->stats().fan_out.handler_duration_ns.count, 25U) << "calls";
}

TEST_P(PublishingTest, AMessageThatCannotBecomeADeliveryHoldsUpNoOther) {
  add("crm");
  Message full = message_of("full", "order.paid");
  for (std::size_t i = full.headers.size(); i < Headers::kMaxEntries; ++i) {
    full.headers.set("h" + std::to_string(i), "v");
  }
  store_->outbox().enqueue(full);
  send("1");
  start({.fan_out = {.workers = 1}});
  ASSERT_TRUE(receivers_.wait_for("crm", 1));
  EXPECT_TRUE(wait_until_sent("1"));
  EXPECT_FALSE(store_->deliveries().find(delivery_key({"shop", "full"}, "crm")));
}

TEST_P(PublishingTest, AnEndpointReachesWhatIsSentAfterItWasAdded) {
  start();
  send("before");
  ASSERT_TRUE(wait_until_sent("before"));
  add("crm");
  send("after");
  ASSERT_TRUE(receivers_.wait_for("crm", 1));
  EXPECT_EQ(receivers_.of("crm"), Lines{"after"});
}

TEST_P(PublishingTest, WhatWasFannedOutAndNotRecordedIsDeliveredOnce) {
  RecordProperty("requirement", "R-37");
  add("crm");
  send("1");
  // As a process that dies after it has stored the delivery.
  const Message sent = store_->outbox().find(MessageKey{"shop", "1"})->message.value();
  store_->deliveries().enqueue(delivery_of(sent, "crm"));
  start();
  ASSERT_TRUE(wait_until_sent("1"));
  ASSERT_TRUE(wait_for_status("1", "crm", Status::done));
  EXPECT_EQ(receivers_.of("crm"), Lines{"1"});
  EXPECT_EQ(delivery("1", "crm").history.duplicates, 1);
}

TEST_P(PublishingTest, OneThatFailsHoldsUpNoOtherAndIsTriedAgain) {
  RecordProperty("requirement", "R-37");
  add("bad");
  add("good");
  std::atomic<int> failures = 0;
  receivers_.react([&](const std::string& endpoint, const ClaimedMessage&) {
    if (endpoint == "bad" && ++failures <= 2) throw std::runtime_error("not now");
  });
  start();
  send("1");
  ASSERT_TRUE(wait_for_status("1", "good", Status::done));
  ASSERT_TRUE(eventually([&] { return status_of("bad").failing_since.has_value(); }));
  EXPECT_FALSE(status_of("good").failing_since);
  ASSERT_TRUE(in_time([&] { return delivery("1", "bad").status == Status::done; }));
  EXPECT_EQ(receivers_.of("bad"), Lines{"1"});
  EXPECT_EQ(delivery("1", "bad").attempts.size(), 3U);
  EXPECT_TRUE(eventually([&] { return !status_of("bad").failing_since; }));
}

TEST_P(PublishingTest, OneThatHangsKeepsOnlyItsOwnWorkers) {
  RecordProperty("requirement", "R-37");
  add("hangs");
  add("good");
  Gate gate;
  receivers_.react([&](const std::string& endpoint, const ClaimedMessage&) {
    if (endpoint == "hangs") gate.pass();
  });
  start({.deliveries = {.workers = kUsualConcurrency + 1}});
  for (int i = 0; i < 20; ++i) send(std::to_string(i));
  EXPECT_TRUE(receivers_.wait_for("good", 20));
  EXPECT_TRUE(receivers_.of("hangs").empty());
  gate.open();
  EXPECT_TRUE(receivers_.wait_for("hangs", 20));
}

TEST_P(PublishingTest, APartitionKeepsItsOrderTowardsEachEndpoint) {
  RecordProperty("requirement", "R-37");
  add("slow");
  add("fast");
  Gate gate;
  receivers_.react([&](const std::string& endpoint, const ClaimedMessage& message) {
    if (endpoint == "slow" && message.message.key.message_id.str() == "0") gate.pass();
  });
  start();
  Lines sent;
  for (int i = 0; i < 10; ++i) {
    sent.push_back(std::to_string(i));
    send(sent.back(), "order.paid", PartitionKey("p"));
  }
  ASSERT_TRUE(receivers_.wait_for("fast", 10)) << "the other one does not wait";
  EXPECT_EQ(receivers_.of("fast"), sent);
  gate.open();
  ASSERT_TRUE(receivers_.wait_for("slow", 10));
  EXPECT_EQ(receivers_.of("slow"), sent);
}

TEST_P(PublishingTest, MiddlewareIsAroundEachDeliveryAndHearsItsEnd) {
  const auto ends = std::make_shared<Watched<Lines>>();
  receivers_.react([](const std::string& endpoint, const ClaimedMessage&) {
    if (endpoint == "crm") throw std::runtime_error("down");
  });
  add("crm");
  add("all");
  const auto note_end = [ends](const ClaimedMessage& delivery, const HandlerContext&,
                               const NextAsyncHandler& next) {
    const Message sent = original_of(delivery.message);
    const std::string line = delivery.message.topic.str() + ": " + sent.key.message_id.str();
    next([ends, line](const std::exception_ptr& failure) {
      ends->change([&](Lines& all) { all.push_back(line + (failure ? " failed" : " done")); });
    });
  };
  start({.deliveries = {.workers = 8}, .around_deliveries = {note_end}});
  send("1");
  ASSERT_TRUE(ends->wait([](const Lines& all) { return all.size() == 2; }));
  Lines all = ends->get();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Lines{"all: 1 done", "crm: 1 failed"}));
}

TEST_P(PublishingTest, OneThatIsGoneIsDisabledOnceWithANotice) {
  RecordProperty("requirement", "R-37");
  add("crm");
  Watched<Lines> notices;
  receivers_.react([](const std::string&, const ClaimedMessage&) {
    throw webhook::ReceiverGone("the receiver answered 410");
  });
  start({.deliveries = {.workers = 1}, .on_disabled = [&](const EndpointNotice& notice) {
           notices.change([&](Lines& all) {
             all.push_back(std::string(notice.store) + notice.endpoint.str() + ": " +
                           notice.status.disabled->reason);
           });
         }});
  send("1");
  ASSERT_TRUE(wait_for_status("1", "crm", Status::dead));
  ASSERT_TRUE(notices.wait_for({"crm: the receiver answered 410"}));
  EXPECT_TRUE(logger_.contains("an endpoint was disabled"));
  send("2");
  ASSERT_TRUE(wait_until_sent("2"));
  EXPECT_FALSE(store_->deliveries().find(delivery_key({"shop", "2"}, "crm")))
      << "it gets nothing more";
  receivers_.react({});
  store_->endpoints().note("crm", {EndpointEvent::Kind::enabled, clock_.now()});
  send("3");
  EXPECT_TRUE(receivers_.wait_for("crm", 1));
  EXPECT_EQ(notices.get().size(), 1U);
}

TEST_P(PublishingTest, OneThatFailsForDaysIsDisabled) {
  RecordProperty("requirement", "R-37");
  add("crm");
  receivers_.react(
      [](const std::string&, const ClaimedMessage&) { throw std::runtime_error("not now"); });
  start({.deliveries = {.workers = 1}});
  send("1");
  ASSERT_TRUE(eventually([&] { return status_of("crm").failing_since.has_value(); }));
  const TimePoint since = *status_of("crm").failing_since;
  for (int days = 1; days < 5; ++days) {
    clock_.advance(24h);
    send("day " + std::to_string(days));
    ASSERT_TRUE(eventually([&] { return status_of("crm").last_failure == clock_.now(); }));
    EXPECT_FALSE(status_of("crm").disabled);
  }
  EXPECT_EQ(status_of("crm").failing_since, since);
  clock_.advance(24h);
  send("5");
  ASSERT_TRUE(eventually([&] { return status_of("crm").disabled.has_value(); }));
  EXPECT_NE(status_of("crm").disabled->reason.find(format_rfc3339(since)), std::string::npos);
}

TEST_P(PublishingTest, FailuresThatAreDaysApartDisableNothing) {
  add("crm");
  receivers_.react(
      [](const std::string&, const ClaimedMessage&) { throw std::runtime_error("not now"); });
  start({.deliveries = {.workers = 1}});
  send("1");
  ASSERT_TRUE(eventually([&] { return status_of("crm").failing_since.has_value(); }));
  clock_.advance(6 * 24h);  // nothing is sent meanwhile
  send("2");
  ASSERT_TRUE(eventually([&] { return status_of("crm").failing_since == clock_.now(); }));
  EXPECT_FALSE(status_of("crm").disabled);
}

TEST_P(PublishingTest, AMessageThatIsRefusedForGoodSaysNothingOfTheEndpoint) {
  add("crm");
  receivers_.react([](const std::string&, const ClaimedMessage& message) {
    if (message.message.key.message_id == "bad") throw PermanentFailure("answered 422");
    throw std::runtime_error("not now");
  });
  start({.deliveries = {.workers = 1}});
  send("bad");
  ASSERT_TRUE(wait_for_status("bad", "crm", Status::dead));
  clock_.advance(24h);
  send("1");
  ASSERT_TRUE(eventually([&] { return status_of("crm").failing_since.has_value(); }));
  EXPECT_EQ(status_of("crm").failing_since, clock_.now()) << "from the other failure on";
}

TEST_P(PublishingTest, WhatIsUnderWayToARemovedEndpointIsDead) {
  RecordProperty("requirement", "R-37");
  add("crm");
  store_->policies().update(QueueKind::deliveries, "crm", {.paused = true});
  start();
  send("1");
  ASSERT_TRUE(wait_until_sent("1"));
  EXPECT_TRUE(receivers_.of("crm").empty()) << "it is paused";
  ASSERT_TRUE(remove_endpoint(*store_, "crm"));
  publishing_->wake();
  EXPECT_TRUE(wait_for_status("1", "crm", Status::dead));
  EXPECT_TRUE(store_->policies().policies(QueueKind::deliveries).rules().empty());
}

TEST_P(PublishingTest, AnEndpointThatCannotBeUsedSaysWhyAndIsTriedAgain) {
  save_endpoint(*store_, {.name = "odd", .url = "oncebox+http://nobody.publishes"});
  start();
  send("1");
  ASSERT_TRUE(eventually([&] {
    const auto found = store_->deliveries().find(delivery_key({"shop", "1"}, "odd"));
    return found && found->history.attempt >= 1;
  }));
  EXPECT_NE(delivery("1", "odd").history.last_error.value().find("oncebox+http://"),
            std::string::npos);
  EXPECT_TRUE(eventually([&] { return status_of("odd").failing_since.has_value(); }))
      << "it does not work";
  save_endpoint(*store_, {.name = "odd", .url = "oncebox+https://odd"});
  EXPECT_TRUE(in_time([&] { return delivery("1", "odd").status == Status::done; }));
}

TEST_P(PublishingTest, AReceiverThatAsksForTimeGetsNothingMeanwhile) {
  add("busy");
  add("other");
  std::atomic<int> asked = 0;
  receivers_.react([&](const std::string& endpoint, const ClaimedMessage&) {
    if (endpoint == "busy" && ++asked == 1) throw RetryAfter(60s, "the receiver answered 429");
  });
  start({.deliveries = {.workers = 1}});
  const TimePoint free_at = clock_.now() + 60s;
  send("1");
  const auto find = [&](const std::string& id) {
    return store_->deliveries().find(delivery_key({"shop", MessageId(id)}, "busy"));
  };
  ASSERT_TRUE(eventually([&] {
    const auto found = find("1");
    return found && found->history.attempt == 1;
  }));
  send("2");
  ASSERT_TRUE(eventually([&] {
    const auto found = find("2");
    return found && found->eligible_at == free_at;
  }));
  EXPECT_EQ(delivery("2", "busy").history.attempt, 0) << "it was not tried";
  EXPECT_TRUE(receivers_.wait_for("other", 2)) << "it concerns the one endpoint";
  EXPECT_EQ(asked, 1);
  clock_.advance(60s);
  publishing_->wake();
  EXPECT_TRUE(receivers_.wait_for("busy", 2));
  EXPECT_EQ(asked, 3);
}

TEST_P(PublishingTest, AnEndpointThatIsTestedOrChangedDoesNotWaitForAReceiverThatAskedForTime) {
  RecordProperty("requirement", "R-37");
  add("crm");
  std::atomic<int> asked = 0;
  receivers_.react([&](const std::string&, const ClaimedMessage&) {
    if (++asked == 1) throw RetryAfter(1h, "the receiver answered 429");
  });
  start({.deliveries = {.workers = 1}});
  send("1");
  ASSERT_TRUE(eventually([&] {
    const auto found = store_->deliveries().find(delivery_key({"shop", "1"}, "crm"));
    return found && found->history.attempt == 1;
  }));
  (void)send_test(*store_, "crm", 60s, clock_);
  ASSERT_TRUE(receivers_.wait_for("crm", 1));
  save_endpoint(*store_, {.name = "crm", .url = "oncebox+https://another"});
  send("2");
  ASSERT_TRUE(receivers_.wait_for("crm", 2));
  EXPECT_EQ(receivers_.of("crm").back(), "2");
}

ONCEBOX_ON_EACH_STORE(PublishingTest);

}  // namespace
}  // namespace oncebox::publish
