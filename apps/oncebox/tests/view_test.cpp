#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "line_reader.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "table.hpp"

#include <fstream>

namespace oncebox::app {
namespace {

using namespace std::chrono_literals;

const TimePoint kNow = parse_rfc3339("2026-01-31T12:00:00Z");

/// What is printed into a file, which is no terminal.
template <class Print>
std::string printed(const Print& print) {
  const int file = memfd_create("printed", 0);
  Output out(file);
  print(out);
  out.flush();
  std::string text(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(file);
  return text;
}

MessageRecord record(std::string id, State state) {
  Message message{.key = {"shop", std::move(id)}, .topic = "order.created", .payload = "{}"};
  return {.key = message.key,
          .status = status_of(state),
          .state = state,
          .message = message,
          .history = {.content_version = 1, .first_seen_at = kNow - 1h, .last_seen_at = kNow}};
}

TEST(View, AListShowsWhatEachMessageIsDoing) {
  std::vector<MessageRecord> records;
  records.push_back(record("1", State::ready));
  records.push_back(record("22", State::leased));
  records.back().lease = {OwnerToken::parse("0190d3c2-4b1e-7c3a-9f00-3d2a1b4c5d6e"), {}, kNow + 1s};
  records.back().lease->worker = "shop-3:8124";
  records.push_back(record("later", State::waiting));
  records.back().waiting_for = WaitingFor::backoff;
  records.push_back(record("done", State::done));
  records.push_back(record("dead", State::dead));
  records.back().history.attempt = 10;
  records.back().history.last_error = "no luck\nsecond line";
  records.push_back({.key = {"shop", "seen"}, .history = {.first_seen_at = kNow}});
  EXPECT_EQ(
      printed([&](Output& out) { print_messages(out, records); }),
      "STATE             TOPIC          SOURCE  ID     FAILED  FIRST SEEN           LAST ERROR  "
      "LEASED BY\n"
      "ready             order.created  shop    1           0  2026-01-31 11:00:00\n"
      "leased            order.created  shop    22          0  2026-01-31 11:00:00              "
      "shop-3:8124\n"
      "waiting: backoff  order.created  shop    later       0  2026-01-31 11:00:00\n"
      "done              order.created  shop    done        0  2026-01-31 11:00:00\n"
      "dead              order.created  shop    dead       10  2026-01-31 11:00:00  no luck\n"
      "seen              -              shop    seen        0  2026-01-31 12:00:00\n");
}

TEST(View, OneMessageIsShownWithAllThatIsKnown) {
  MessageRecord shown = record("1", State::dead);
  shown.message->headers = {{"contentType", "application/json"}};
  shown.message->priority = 5;
  shown.message->partition_key = "p";
  shown.message->due_at = kNow - 2h;
  shown.message->payload = "{\"a\":\n\x1b[31m1}\n";
  shown.hash = ContentHash("sha256", "ab");
  shown.history.attempt = 3;
  shown.history.deliveries = 4;
  shown.history.lapses = 1;
  shown.history.last_error = "no luck";
  shown.finished_at = kNow;
  shown.revivals = {2, kNow - 30min, "try again"};
  EXPECT_EQ(printed([&](Output& out) { print_message(out, shown); }),
            "source              shop\n"
            "id                  1\n"
            "state               dead\n"
            "topic               order.created\n"
            "first seen          2026-01-31T11:00:00.000Z\n"
            "last seen           2026-01-31T12:00:00.000Z\n"
            "finished            2026-01-31T12:00:00.000Z\n"
            "failed attempts     3\n"
            "deliveries          4, of which 1 ended without a settlement\n"
            "duplicates          0\n"
            "content version     1\n"
            "last error          no luck\n"
            "revived             2 times, last at 2026-01-31T11:30:00.000Z: try again\n"
            "hash                sha256:6162\n"
            "priority            5\n"
            "partition key       p\n"
            "due                 2026-01-31T10:00:00.000Z\n"
            "header contentType  application/json\n"
            "payload             14 bytes\n"
            "\n"
            "{\"a\":\n\\x1b[31m1}\n");
}

TEST(View, StatisticsEndWithTheirSum) {
  QueueStats stats;
  stats.topics.push_back({.seen = 3});
  stats.topics.push_back(
      {.topic = "a", .ready = 1'234'567, .leased = 2, .oldest_ready_at = kNow - 90s});
  stats.topics.push_back(
      {.topic = "b", .waiting = {.due = 2, .pause = 1}, .dead = 1, .oldest_dead_at = kNow - 72h});
  EXPECT_EQ(
      printed([&](Output& out) { print_stats(out, stats, kNow); }),
      "TOPIC           READY  WAITING  FOR             LEASED  DONE  DEAD  SEEN  OLDEST READY  "
      "OLDEST DEAD\n"
      "(none)              0        0  -                    0     0     0     3             -  "
      "          -\n"
      "a           1,234,567        0  -                    2     0     0     0            1m  "
      "          -\n"
      "b                   0        3  due 2, pause 1       0     0     1     0             -  "
      "         3d\n"
      "all topics  1,234,567        3  due 2, pause 1       2     0     1     3            1m  "
      "         3d\n");
}

TEST(View, AKeyIsShownWithItsLeaseAndResult) {
  const KeyRecord shown{.key = "shop:1",
                        .status = KeyStatus::in_progress,
                        .attempts = 2,
                        .first_seen_at = kNow - 1h,
                        .last_seen_at = kNow,
                        .owner = "worker 1",
                        .lease_until = kNow - 1s,
                        .keep_until = kNow + 24h};
  EXPECT_EQ(printed([&](Output& out) { print_key(out, shown, kNow); }),
            "key           shop:1\n"
            "status        in_progress (the lease has lapsed)\n"
            "attempts      2\n"
            "first seen    2026-01-31T11:00:00.000Z\n"
            "last seen     2026-01-31T12:00:00.000Z\n"
            "leased until  2026-01-31T11:59:59.000Z\n"
            "kept until    2026-02-01T12:00:00.000Z\n"
            "owner         worker 1\n");
}

TEST(Printable, WhatCouldDriveATerminalIsEscaped) {
  EXPECT_EQ(printable("plain é 注文 \\n"), "plain é 注文 \\n");
  EXPECT_EQ(printable("a\x1b[31m\n\t\r\x7f"), "a\\x1b[31m\\n\\t\\x0d\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"), "\\x9b") << "a control character of its own";
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3") << "no UTF-8";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(printable("\u202ex\u2028\ufeff"), "\\u{202e}x\\u{2028}\\u{feff}");
  EXPECT_EQ(printable_lines("a\n\tb\r"), "a\n\tb\\x0d");
}

TEST(Printable, WidthIsInColumns) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("注文"), 4U);
  EXPECT_EQ(display_width("e\u0301"), 1U) << "a letter and its accent";
  EXPECT_EQ(display_width("👍🏽"), 2U) << "a picture and its colour";
  EXPECT_EQ(fitted("注文注文", 5), "注文…");
  EXPECT_EQ(fitted("注文注文", 4), "注…");
  EXPECT_EQ(fitted("abc", 3), "abc");
  EXPECT_EQ(fitted("abcd", 3), "ab…");
  EXPECT_EQ(fitted("abcd", 0), "");
}

TEST(Lines, AreReadWholeWhereverTheBufferEnds) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("lines");
  std::vector<std::string> written;
  for (std::size_t i = 0; i < 50; ++i)
    written.emplace_back(i * 7'919, static_cast<char>('a' + i % 26));
  {
    std::ofstream file(path);
    for (const std::string& line : written) file << line << '\n';
    file << "the last, without an end";
  }
  written.emplace_back("the last, without an end");
  LineReader lines(path);
  std::vector<std::string> read;
  while (const auto line = lines.next()) read.emplace_back(line->text);
  EXPECT_EQ(read, written);
  EXPECT_EQ(lines.number(), written.size());
  EXPECT_EQ(lines.bytes_read(), lines.size());
}

TEST(Lines, OneThatIsTooLongIsCutAndMarked) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("lines");
  std::ofstream(path) << std::string(LineReader::kMaxLineBytes + 1'000'000, 'x') << "\nshort\n";
  LineReader lines(path);
  const auto first = lines.next();
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->too_long);
  std::string last;
  while (const auto line = lines.next()) last = line->text;
  EXPECT_EQ(last, "short");
}

}  // namespace
}  // namespace oncebox::app
