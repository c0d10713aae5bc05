#include "endpoint_directory.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;
using Secrets = std::vector<std::string>;

class EndpointDirectoryTest : public ::testing::Test {
 protected:
  EndpointDirectoryTest() {
    publishers_.on("test", [this](const EndpointTarget& target) {
      made_with_.push_back(target.secrets.empty() ? "" : target.secrets.front());
      return callable_publisher([](const ClaimedMessage&, HandlerContext&) {});
    });
  }
  void save(const std::string& secret) {
    store_.endpoints().save({.name = "crm", .url = "test://crm", .secrets = {{secret}}});
  }
  void write(const std::string& secret) const { std::ofstream(file_) << secret << '\n'; }
  [[nodiscard]] KnownEndpoint known() { return directory_.current(now_)->endpoints.at("crm"); }

  const testing::TemporaryFolder folder_;
  const std::string file_ = folder_.file("secret");
  memory::MemoryStore store_;
  EndpointPublishers publishers_;
  EndpointDirectory directory_{"", store_.endpoints(), publishers_};
  Secrets made_with_;
  TimePoint now_{24h * 365};
};

TEST_F(EndpointDirectoryTest, APublisherIsKeptUntilItsEndpointChanges) {
  save("literal:one");
  const auto publisher = known().publisher;
  store_.endpoints().note("crm", {EndpointEvent::Kind::failed, now_});
  now_ += 1h;
  EXPECT_EQ(known().publisher, publisher);
  EXPECT_TRUE(known().record->status.failing_since) << "what became of it is known";
  save("literal:two");
  EXPECT_NE(known().publisher, publisher);
  EXPECT_EQ(made_with_, (Secrets{"one", "two"}));
}

TEST_F(EndpointDirectoryTest, AFileIsReadAgainFromTimeToTime) {
  write("one");
  save("file:" + file_);
  EXPECT_EQ(known().secrets, Secrets{"one"});
  write("another");
  now_ += 1s;
  EXPECT_EQ(known().secrets, Secrets{"one"}) << "not each time";
  now_ += 5s;
  EXPECT_EQ(known().secrets, Secrets{"another"});
  now_ += 5s;
  (void)known();
  EXPECT_EQ(made_with_, (Secrets{"one", "another"})) << "nothing has changed";
}

TEST_F(EndpointDirectoryTest, AFileThatCannotBeReadLeavesWhatStoodThere) {
  write("one");
  save("file:" + file_);
  const auto publisher = known().publisher;
  std::filesystem::remove(file_);
  now_ += 5s;
  EXPECT_EQ(known().publisher, publisher);
  write("two");
  now_ += 5s;
  EXPECT_EQ(known().secrets, Secrets{"two"});
}

TEST_F(EndpointDirectoryTest, OneThatCannotBeUsedIsLookedAtAgain) {
  save("file:" + file_);
  EXPECT_EQ(known().publisher, nullptr);
  EXPECT_NE(known().problem.find(file_), std::string::npos);
  write("one");
  now_ += 5s;
  EXPECT_NE(known().publisher, nullptr);
  EXPECT_TRUE(known().problem.empty());
}

TEST_F(EndpointDirectoryTest, AClockThatWasSetBackHoldsUpNothing) {
  write("one");
  save("file:" + file_);
  (void)known();
  write("two");
  now_ -= 1h;
  EXPECT_EQ(known().secrets, Secrets{"two"});
}

}  // namespace
}  // namespace oncebox::publish
