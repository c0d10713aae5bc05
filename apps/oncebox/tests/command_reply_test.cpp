#include "command_reply.hpp"

#include <gtest/gtest.h>

#include "oncebox/error.hpp"

namespace oncebox::app {
namespace {

using namespace std::chrono_literals;
using Word = CommandReply::Word;

TEST(CommandReplyTest, IsAWordAndADelay) {
  EXPECT_EQ(parse_reply("retry-after 1m30s").word, Word::retry_after);
  EXPECT_EQ(parse_reply("retry-after 1m30s").delay, 90s);
  EXPECT_EQ(parse_reply(" not-now \t250ms\r").word, Word::not_now);
  EXPECT_EQ(parse_reply(" not-now \t250ms\r").delay, 250ms);
}

TEST(CommandReplyTest, RefusesEverythingElse) {
  for (const char* text : {"", " ", "retry-after", "retry-after soon", "retry-after -1s",
                           "retry-after 1s 2s", "Retry-After 1s", "not-now30s", "30s", "done"}) {
    EXPECT_THROW((void)parse_reply(text), Error) << text;
  }
}

}  // namespace
}  // namespace oncebox::app
