// What a URL says reaches the connection on which handlers work.

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kept_attempts.hpp"
#include "oncebox/error.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/sqlite/transaction.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox {
namespace {

std::string foreign_keys_in_a_handler(const std::string& url) {
  const auto store = open_store(url);
  store->inbox().enqueue({.key = {"shop", "1"}, .topic = "order.paid"});
  const auto claimed = store->inbox().claim({.owner = OwnerToken::generate()});
  std::string answer;
  const auto take = [](void* into, int, char** values, char**) {
    *static_cast<std::string*>(into) = values[0];
    return 0;
  };
  store->inbox().transactional()->acknowledge_with(
      delivery_of(claimed.at(0)), [&](Transaction& transaction) {
        sqlite3_exec(sqlite::database_of(transaction), "PRAGMA foreign_keys", take, &answer,
                     nullptr);
      });
  return answer;
}

TEST(OpenSqlite, ForeignKeysAreEnforcedInHandlersWhenTheUrlSaysSo) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(foreign_keys_in_a_handler("sqlite:" + folder.file("1.db")), "0");
  EXPECT_EQ(foreign_keys_in_a_handler("sqlite:" + folder.file("2.db?foreign_keys=off")), "0");
  EXPECT_EQ(foreign_keys_in_a_handler("sqlite:" + folder.file("3.db?foreign_keys=on")), "1");
}

TEST(OpenSqlite, AsManyAttemptsAreKeptAsTheUrlSays) {
  RecordProperty("requirement", "R-32");
  const testing::TemporaryFolder folder;
  const std::string url = "sqlite:" + folder.file("1.db") + "?kept_attempts=";
  EXPECT_EQ(numbers_of_kept_attempts(*open_store(url + "2")), (std::vector<int>{3, 4}));
  EXPECT_THROW((void)open_store(url + "0"), Error);
}

TEST(OpenSqlite, TheModeOfTheFileIsOctal) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("1.db");
  (void)open_store("sqlite:" + path + "?mode=0640");
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms{0640});
  for (const std::string mode : {"", "rw", "0680", "-600", "0600x", "99999999999999"}) {
    try {
      (void)open_store("sqlite:" + folder.file("2.db?mode=" + mode));
      ADD_FAILURE() << mode;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << mode;
    }
  }
}

}  // namespace
}  // namespace oncebox
