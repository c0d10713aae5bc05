#include "oncebox/open_store.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "kept_attempts.hpp"
#include "oncebox/error.hpp"

namespace oncebox {
namespace {

ErrorCode error_code_of(std::string_view url) {
  try {
    (void)open_store(url);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an oncebox::Error for " << url;
  return ErrorCode::internal;
}

TEST(OpenStore, MemoryOpensAnEmptyStoreOnTheMachinesClock) {
  const auto store = open_store("memory:");
  const auto before = SystemClock::current();
  store->inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created"});
  const auto record = store->inbox().find({"shop", "1"});
  ASSERT_TRUE(record);
  EXPECT_GE(record->history.first_seen_at, before);
  EXPECT_LE(record->history.first_seen_at, SystemClock::current());
}

TEST(OpenStore, ParametersOfAMemoryUrlSetItsBounds) {
  const auto store = open_store("memory:?max_messages=1&max_payload_bytes=3");
  EXPECT_EQ(store->capabilities().max_payload_bytes, 3U);
  store->inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created"});
  EXPECT_THROW(store->inbox().enqueue({.key = {"shop", "2"}, .topic = "order.created"}), Error);
}

TEST(OpenStore, AMemoryStoreKeepsAsManyAttemptsAsItsUrlSays) {
  RecordProperty("requirement", "R-32");
  EXPECT_EQ(numbers_of_kept_attempts(*open_store("memory:?kept_attempts=2")),
            (std::vector<int>{3, 4}));
  EXPECT_EQ(error_code_of("memory:?kept_attempts=0"), ErrorCode::out_of_range);
}

TEST(OpenStore, AnUnknownSchemeIsUnsupportedAndTheErrorNamesWhatThereIs) {
  try {
    (void)open_store("tape:/dev/st0");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("memory"), std::string::npos);
  }
}

TEST(OpenStore, SqliteKeepsItsMessagesInTheFileOfThatPath) {
  RecordProperty("requirement", "IBX-013");
  const std::string path = ::testing::TempDir() + "open_store_test_" + std::to_string(getpid());
  const std::string url = "sqlite:" + path + "?readers=1&busy_timeout_ms=100";
  open_store(url)->inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created"});
  EXPECT_TRUE(open_store(url)->inbox().find({"shop", "1"}));
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
}

TEST(OpenStore, SqliteWithSchemaDeploymentOffRefusesAnEmptyFile) {
  RecordProperty("requirement", "IBX-115");
  const std::string path = ::testing::TempDir() + "open_store_off_" + std::to_string(getpid());
  EXPECT_EQ(error_code_of("sqlite:" + path + "?schema_deployment=off"), ErrorCode::conflict);
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
}

TEST(OpenStore, BadSqliteUrlsAreRefused) {
  for (const auto* url :
       {"sqlite:", "sqlite::memory:", "sqlite:x?schema_deployment=perhaps", "sqlite:x?nonsense=1",
        "sqlite:x?busy_timeout_ms=soon", "sqlite:x?foreign_keys=1"}) {
    EXPECT_EQ(error_code_of(url), ErrorCode::invalid_argument) << url;
  }
  EXPECT_EQ(error_code_of("sqlite:/no/such/folder/x.db"), ErrorCode::not_found);
  EXPECT_EQ(error_code_of("sqlite:x?readers=0"), ErrorCode::out_of_range);
}

TEST(OpenStore, BadUrlsAreInvalid) {
  for (const auto* url :
       {"", "memory", ":", "Memory:", "memory:name", "memory:?max_messages=x", "memory:?nonsense=1",
        "memory:?max_keys=1&max_keys=2", "memory:?max_keys", "memory:?max_keys=%zz"}) {
    EXPECT_EQ(error_code_of(url), ErrorCode::invalid_argument) << url;
  }
}

}  // namespace
}  // namespace oncebox
