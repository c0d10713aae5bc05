// Where the messages of the outbox go is kept by the store, the same for everybody who works on it.

#include <algorithm>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Kind = EndpointEvent::Kind;

class EndpointConformance : public StoreConformance {
 protected:
  [[nodiscard]] EndpointStore& endpoints() { return store().endpoints(); }

  [[nodiscard]] static Endpoint whole() {
    return {.name = "crm",
            .url = "oncebox+https://crm.example/v1/stores/a",
            .topics = {"order.*", TopicPattern(Topic("star*"))},
            .secrets = {{"literal:one", "literal:whsec_c2VjcmV0"}},
            .headers = {{"X-Team", "sales \"west\""}},
            .timeout = 1500ms,
            .allow_private = true,
            .disable_after = 48h};
  }
  [[nodiscard]] static Endpoint plain(std::string_view name) {
    return {.name = name, .url = "oncebox+https://plain.example"};
  }
  [[nodiscard]] static std::vector<std::string> names_of(const EndpointList& list) {
    std::vector<std::string> names;
    for (const EndpointRecord& record : list.endpoints) names.push_back(record.endpoint.name.str());
    return names;
  }
  [[nodiscard]] EndpointStatus status_of(std::string_view name) {
    const EndpointList list = endpoints().list();
    const EndpointRecord* const record = list.find(name);
    return record != nullptr ? record->status : EndpointStatus{};
  }
  EndpointNoted note(Kind kind, std::string reason = {}) {
    return endpoints().note("crm", {kind, now(), std::move(reason)}).value();
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, EndpointConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(EndpointConformance, AreKeptWholeAndSeenThroughEveryHandle) {
  EXPECT_TRUE(endpoints().list().endpoints.empty());
  EXPECT_EQ(endpoints().save(whole()), EndpointSaved::created);
  EXPECT_EQ(endpoints().save(whole()), EndpointSaved::unchanged);
  const std::shared_ptr<Store> other = open();
  const EndpointList list = other->endpoints().list(EndpointSecrets::include);
  ASSERT_EQ(list.endpoints.size(), 1U);
  EXPECT_EQ(list.endpoints[0].endpoint, whole());
  EXPECT_EQ(list.endpoints[0].status, EndpointStatus{});
}

TEST_P(EndpointConformance, AreListedByNameWithoutTheirSecretsUnlessAskedFor) {
  for (const char* const name : {"b", "a", "Z", "c"}) endpoints().save(plain(name));
  endpoints().save(whole());
  const EndpointList list = endpoints().list();
  EXPECT_EQ(names_of(list), (std::vector<std::string>{"Z", "a", "b", "c", "crm"}));
  EXPECT_TRUE(std::ranges::none_of(list.endpoints, [](const EndpointRecord& record) {
    return record.endpoint.secrets.has_value();
  }));
  EXPECT_EQ(list.find("crm")->endpoint.url, whole().url);
  EXPECT_EQ(list.find("none"), nullptr);
}

TEST_P(EndpointConformance, AChangeWithoutSecretsKeepsThoseThatAreThere) {
  endpoints().save(whole());
  Endpoint moved = whole();
  moved.secrets.reset();
  moved.url = "oncebox+https://moved.example";
  EXPECT_EQ(endpoints().save(moved), EndpointSaved::changed);
  const EndpointList list = endpoints().list(EndpointSecrets::include);
  EXPECT_EQ(list.endpoints.at(0).endpoint.secrets, whole().secrets);
  EXPECT_EQ(list.endpoints.at(0).endpoint.url, moved.url);
  moved.secrets.emplace();
  EXPECT_EQ(endpoints().save(moved), EndpointSaved::changed) << "none is not left out";
}

TEST_P(EndpointConformance, TheVersionTellsWhetherAnythingHasChanged) {
  const std::int64_t before = endpoints().list().version;
  EXPECT_FALSE(endpoints().list_unless(before));
  endpoints().save(plain("crm"));
  const std::optional<EndpointList> saved = endpoints().list_unless(before);
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->endpoints.size(), 1U);
  EXPECT_FALSE(endpoints().list_unless(saved->version));
  note(Kind::failed);
  const std::optional<EndpointList> noted = endpoints().list_unless(saved->version);
  ASSERT_TRUE(noted);
  note(Kind::failed);
  EXPECT_FALSE(endpoints().list_unless(noted->version)) << "it said so before";
  EXPECT_TRUE(endpoints().remove("crm"));
  EXPECT_TRUE(endpoints().list_unless(noted->version));
}

TEST_P(EndpointConformance, AStatusIsKeptUntilItIsOver) {
  endpoints().save(plain("crm"));
  const TimePoint first = now();
  const EndpointStatus failing{.failing_since = first, .last_failure = first};
  EXPECT_EQ(note(Kind::failed), (EndpointNoted{true, failing}));
  advance(1h);
  EXPECT_EQ(note(Kind::failed), (EndpointNoted{false, failing}));
  advance(24h);
  EXPECT_EQ(note(Kind::failed),
            (EndpointNoted{true, {.failing_since = first, .last_failure = now()}}));
  EXPECT_EQ(status_of("crm").last_failure, now());
  EXPECT_EQ(note(Kind::worked), (EndpointNoted{true, {}}));
  EXPECT_EQ(note(Kind::worked), (EndpointNoted{false, {}}));
  note(Kind::failed);
  const EndpointNoted disabled = note(Kind::disabled, "it is gone");
  EXPECT_TRUE(disabled.changed);
  ASSERT_TRUE(disabled.status.disabled);
  EXPECT_EQ(disabled.status.disabled->reason, "it is gone");
  EXPECT_EQ(disabled.status.disabled->at, now());
  EXPECT_FALSE(note(Kind::disabled, "again").changed) << "one is told";
  EXPECT_TRUE(note(Kind::worked).status.disabled) << "what was under way does not enable it";
  Endpoint moved = plain("crm");
  moved.url = "oncebox+https://moved.example";
  endpoints().save(moved);
  EXPECT_TRUE(status_of("crm").disabled) << "a change leaves the status";
  EXPECT_EQ(note(Kind::enabled), (EndpointNoted{true, {}}));
  EXPECT_EQ(status_of("crm"), EndpointStatus{});
}

TEST_P(EndpointConformance, WhatIsNotThereCanNeitherBeRemovedNorNoted) {
  EXPECT_FALSE(endpoints().remove("crm"));
  EXPECT_EQ(endpoints().note("crm", {Kind::failed, now()}), std::nullopt);
  endpoints().save(plain("crm"));
  note(Kind::disabled);
  EXPECT_TRUE(endpoints().remove("crm"));
  EXPECT_FALSE(endpoints().remove("crm"));
  endpoints().save(plain("crm"));
  EXPECT_EQ(status_of("crm"), EndpointStatus{}) << "another of the same name begins anew";
}

TEST_P(EndpointConformance, OutliveTheStoreThatKeepsThem) {
  if (!store().capabilities().durable) return;
  endpoints().save(whole());
  note(Kind::disabled, "why");
  const EndpointList before = endpoints().list(EndpointSecrets::include);
  reopen();
  EXPECT_EQ(endpoints().list(EndpointSecrets::include).endpoints, before.endpoints);
}

TEST_P(EndpointConformance, BadOnesAreRefusedAndChangeNothing) {
  const auto refused = [&](Endpoint endpoint) {
    return error_of([&] { endpoints().save(endpoint); });
  };
  Endpoint bad = plain("a/b");
  EXPECT_EQ(refused(bad), ErrorCode::invalid_argument);
  for (const char* const url :
       {"", "example.com", "https://", "https://user:pw@example.com/", "https://exam ple.com"}) {
    bad = plain("a");
    bad.url = url;
    EXPECT_EQ(refused(bad), ErrorCode::invalid_argument) << url;
  }
  bad = plain("a");
  bad.headers.set("X\nY", "v");
  EXPECT_EQ(refused(bad), ErrorCode::invalid_argument);
  bad = plain("a");
  bad.timeout = 0ms;
  EXPECT_EQ(refused(bad), ErrorCode::out_of_range);
  EXPECT_TRUE(endpoints().list().endpoints.empty());
}

}  // namespace oncebox::conformance
