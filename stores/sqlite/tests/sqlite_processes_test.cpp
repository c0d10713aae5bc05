#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "connection.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "peer_process.hpp"

namespace oncebox::sqlite {
namespace {

TEST(SqliteProcesses, OfManyProcessesOneAcceptsEachMessageAndOneHandlesIt) {
  RecordProperty("requirement", "IBX-001,IBX-014,IBX-105,IBX-106");
  constexpr int kProcesses = 4;
  constexpr int kMessages = 300;
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("oncebox.db");
  // They also race to create the tables.
  std::vector<std::unique_ptr<PeerProcess>> rivals;
  for (int i = 0; i < kProcesses; ++i) {
    rivals.push_back(std::make_unique<PeerProcess>(std::string(ONCEBOX_SQLITE_RIVAL) + " " + path +
                                                   " " + std::to_string(kMessages)));
  }
  std::map<std::string, int> lines;
  for (const auto& rival : rivals) {
    for (std::string line = rival->read_line(); !line.empty(); line = rival->read_line()) {
      ++lines[line];
    }
    EXPECT_EQ(rival->finish(), 0);
  }
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(lines["accepted " + std::to_string(i)], 1) << i;
    EXPECT_EQ(lines["handled " + std::to_string(i)], 1) << i;
  }
  Connection connection({.path = path});
  EXPECT_EQ(connection.query_text("PRAGMA integrity_check"), "ok");
}

TEST(SqliteProcesses, StoreWorksWhileAnotherProcessKeepsTakingTheLock) {
  RecordProperty("requirement", "IBX-105");
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("oncebox.db");
  PeerProcess peer(std::string(ONCEBOX_SQLITE_PEER) + " " + path);
  {
    SqliteStore store({.path = path, .busy_timeout = std::chrono::seconds{60}});
    const OwnerToken owner = OwnerToken::generate();
    for (int i = 0; i < 200; ++i) {
      store.inbox().enqueue({.key = {"shop", std::to_string(i)}, .topic = "order.created"});
      const std::vector<ClaimedMessage> claimed = store.inbox().claim({.owner = owner});
      ASSERT_EQ(claimed.size(), 1U);
      EXPECT_EQ(store.inbox().settle({.delivery = delivery_of(claimed[0])}), SettleStatus::settled);
    }
  }
  EXPECT_EQ(peer.finish(), 0);
}

}  // namespace
}  // namespace oncebox::sqlite
