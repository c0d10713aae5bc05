#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/testing/span_record.hpp"

namespace oncebox::publish {
namespace {

using Lines = std::vector<std::string>;

class SetPublishingTest : public ::testing::Test {
 protected:
  SetPublishingTest() {
    publishers_.on("test", [this](const EndpointTarget& target) {
      const std::string name = target.lane;
      return callable_publisher([this, name](const ClaimedMessage& message, HandlerContext&) {
        lines_.change(
            [&](Lines& all) { all.push_back(name + ": " + message.message.key.message_id.str()); });
      });
    });
  }
  [[nodiscard]] Store& store(const std::string& name) { return stores_.find(name)->store(); }
  void send(const std::string& name, const std::string& id) {
    store(name).outbox().enqueue({.key = {"shop", id}, .topic = "t", .payload = "{}"});
  }
  void list(std::vector<StoreLocation> locations) {
    listed_.change([&](auto& all) { all = std::move(locations); });
    stores_.refresh();
  }

  testing::FakeClock clock_;
  RecordingLogger logger_;
  testing::SpanRecord spans_;
  Watched<Lines> lines_;
  Watched<std::vector<StoreLocation>> listed_{{{"a", "memory:"}, {"b", "memory:"}}};
  EndpointPublishers publishers_;
  StoreSet stores_{
      [this] { return listed_.get(); },
      [this](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(clock_); },
      {},
      {.logger = logger_, .clock = clock_}};
};

TEST_F(SetPublishingTest, EveryStoreIsPublishedAlsoThoseThatComeLater) {
  RecordProperty("requirement", "R-37");
  for (const char* const name : {"a", "b"}) {
    save_endpoint(store(name), {.name = "crm", .url = "test://crm"});
  }
  SetPublishing publishing(stores_, publishers_, {.deliveries = {.workers = 4}},
                           {.logger = logger_, .clock = clock_});
  publishing.start();
  send("a", "1");
  ASSERT_TRUE(lines_.wait([](const Lines& all) { return all.size() == 1; }));
  send("b", "1");
  ASSERT_TRUE(lines_.wait([](const Lines& all) { return all.size() == 2; }));
  list({{"a", "memory:"}, {"c", "memory:"}});
  save_endpoint(store("c"), {.name = "crm", .url = "test://crm"});
  send("c", "1");
  ASSERT_TRUE(lines_.wait([](const Lines& all) { return all.size() == 3; }));
  EXPECT_EQ(lines_.get(), (Lines{"a/crm: 1", "b/crm: 1", "c/crm: 1"}));
  EXPECT_TRUE(publishing.stop().complete());
  EXPECT_EQ(publishing.stats().fan_out.handled, 3U);
  EXPECT_EQ(publishing.stats().deliveries.handled, 3U);
}

TEST_F(SetPublishingTest, SpansOfFanOutAndDeliveriesAreOfTheTraceOfTheMessage) {
  RecordProperty("requirement", "R-37");
  save_endpoint(store("a"), {.name = "crm", .url = "test://crm"});
  SetPublishing publishing(stores_, publishers_, {},
                           {.logger = logger_, .clock = clock_, .tracer = &spans_});
  publishing.start();
  Outbox outbox(store("a"), {.source = "shop"}, {.clock = clock_, .tracer = &spans_});
  outbox.enqueue({.topic = "t", .id = "1"});
  ASSERT_TRUE(lines_.wait([](const Lines& all) { return all.size() == 1; }));
  EXPECT_TRUE(publishing.stop().complete());
  const auto enqueued = spans_.spans_of(SpanOperation::enqueue);
  ASSERT_EQ(enqueued.size(), 1U);
  std::set<std::string> published;
  for (const SpanOperation operation : {SpanOperation::handle, SpanOperation::publish}) {
    for (const auto& span : spans_.spans_of(operation)) {
      published.insert(span.target);
      EXPECT_EQ(span.context.trace_id, enqueued[0].context.trace_id);
    }
  }
  EXPECT_EQ(published, (std::set<std::string>{"t", "crm"})) << "the fan-out, and the delivery";
}

}  // namespace
}  // namespace oncebox::publish
