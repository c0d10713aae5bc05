#include "sqlite_soundness.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include "connection.hpp"

namespace oncebox::crash {

void expect_sound(const std::string& database) {
  sqlite::Connection connection({.path = database});
  EXPECT_EQ(connection.query_text("PRAGMA integrity_check"), "ok");
  for (const char* queue : {"inbox", "outbox"}) {
    SCOPED_TRACE(queue);
    const auto count = [&](std::string_view sql) {
      return connection.query_integer(
          fmt::format(fmt::runtime(sql), fmt::arg("queue", queue)).c_str());
    };
    EXPECT_EQ(count("SELECT count(*) FROM oncebox_{queue}_message "
                    "WHERE id NOT IN (SELECT id FROM oncebox_{queue}_state)"),
              0);
    EXPECT_EQ(count("SELECT count(*) FROM oncebox_{queue}_state "
                    "WHERE id NOT IN (SELECT id FROM oncebox_{queue}_message)"),
              0);
    EXPECT_EQ(count("SELECT count(*) FROM oncebox_{queue}_state WHERE topic IS NOT NULL "
                    "AND topic NOT IN (SELECT id FROM oncebox_topic)"),
              0);
    EXPECT_EQ(count("SELECT count(*) FROM (SELECT topic, count(*) FROM oncebox_{queue}_state "
                    "WHERE stage = 4 GROUP BY topic EXCEPT "
                    "SELECT topic, count FROM oncebox_done_count WHERE queue = '{queue}')"),
              0);
    EXPECT_EQ(count("SELECT ifnull(sum(count), 0) FROM oncebox_done_count "
                    "WHERE queue = '{queue}'"),
              count("SELECT count(*) FROM oncebox_{queue}_state WHERE stage = 4"));
    EXPECT_GE(count("SELECT last_id FROM oncebox_counter WHERE queue = '{queue}'"),
              count("SELECT ifnull(max(id), 0) FROM oncebox_{queue}_message"));
    EXPECT_GE(count("SELECT last_delivery FROM oncebox_counter WHERE queue = '{queue}'"),
              count("SELECT ifnull(max(delivery), 0) FROM oncebox_{queue}_state"));
  }
}

}  // namespace oncebox::crash
