#include "command.hpp"

#include <gtest/gtest.h>

#include <set>

#include "command_line.hpp"
#include "commands/commands.hpp"
#include "failure.hpp"
#include "help.hpp"

namespace oncebox::app {
namespace {

TEST(Commands, EachDescribesItselfFully) {
  for_each_command(oncebox_command(), [](std::span<const std::string> path,
                                         const Command& command) {
    SCOPED_TRACE(usage_line(path, command));
    EXPECT_FALSE(command.summary.empty());
    EXPECT_FALSE(command.summary.ends_with('.'));
    EXPECT_FALSE(command.examples.empty());
    EXPECT_TRUE(command.run || !command.commands.empty()) << "it does something, or groups others";
    std::set<std::string> names{"-h", "--help"};
    for (const Option& option : command.options) {
      EXPECT_TRUE(names.insert(option.long_name()).second) << option.names;
      if (!option.short_name().empty()) {
        EXPECT_TRUE(names.insert(option.short_name()).second) << option.names;
      }
      EXPECT_FALSE(option.text.ends_with("..") && !option.text.ends_with("...")) << option.names;
      EXPECT_TRUE(option.take) << option.names;
    }
    for (const Example& example : command.examples) {
      EXPECT_NE(example.command.find("oncebox"), std::string::npos);
    }
  });
}

TEST(Commands, HelpFitsItsColumns) {
  for_each_command(oncebox_command(),
                   [](std::span<const std::string> path, const Command& command) {
                     const std::string text = help_text(path, command, 80);
                     const std::size_t options = text.find("\nOptions:");
                     const std::size_t examples = text.find("\nExamples:");
                     std::string_view rest(text.data() + options, examples - options);
                     while (!rest.empty()) {
                       const std::size_t end = std::min(rest.find('\n'), rest.size());
                       EXPECT_LE(end, 82U) << rest.substr(0, end);
                       rest.remove_prefix(std::min(end + 1, rest.size()));
                     }
                   });
}

/// A program with one command of each kind.
struct Sample {
  std::vector<std::string> taken;
  bool flag = false;

  Command program() {
    const auto take = [this](const std::string& text) { taken.push_back(text); };
    return {.name = "p",
            .summary = "sample",
            .commands = {{.name = "run",
                          .summary = "run",
                          .options = {{.names = "-v,--value",
                                       .value = "V",
                                       .text = "v",
                                       .take = take,
                                       .occurs = Occurs::repeatedly},
                                      {.names = "--flag",
                                       .text = "f",
                                       .take = [this](const std::string&) { flag = true; }}},
                          .arguments = {{.value = "FIRST", .text = "a", .take = take}},
                          .rest = {.value = "REST", .text = "r", .take = take},
                          .run = [](Console&) { return ExitCode::ok; }}}};
  }
  Invocation parse(std::vector<const char*> words) {
    words.insert(words.begin(), "p");
    command = program();
    return parse_command_line(command, static_cast<int>(words.size()), words.data());
  }
  Command command;
};

TEST(CommandLine, OptionsComeFirstAndTheRestIsLeftAlone) {
  Sample sample;
  const Invocation invocation =
      sample.parse({"run", "--value=a", "-v", "-b", "--flag", "first", "cmd", "--flag", "-v", "x"});
  EXPECT_EQ(invocation.path, (std::vector<std::string>{"p", "run"}));
  EXPECT_TRUE(sample.flag);
  EXPECT_EQ(sample.taken,
            (std::vector<std::string>{"a", "-b", "first", "cmd", "--flag", "-v", "x"}));
}

TEST(CommandLine, BehindTwoDashesNothingIsAnOption) {
  Sample sample;
  (void)sample.parse({"run", "--", "--value", "cmd", "--", "x"});
  EXPECT_EQ(sample.taken, (std::vector<std::string>{"--value", "cmd", "--", "x"}));
  EXPECT_FALSE(sample.flag);
}

TEST(CommandLine, HelpWinsOverWhatIsMissing) {
  Sample sample;
  EXPECT_EQ(sample.parse({"run", "--help"}).kind, Invocation::Kind::help);
  EXPECT_EQ(sample.parse({"-h"}).path, (std::vector<std::string>{"p"}));
}

TEST(CommandLine, MistakesAreUsageFailures) {
  const std::vector<std::vector<const char*>> mistakes{
      {}, {"rnu"}, {"run"}, {"run", "a"}, {"run", "--vlaue", "x", "a", "b"}, {"run", "-v"}};
  for (const auto& words : mistakes) {
    Sample sample;
    try {
      (void)sample.parse(words);
      ADD_FAILURE() << "expected a failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), ExitCode::usage);
      EXPECT_NE(std::string(failure.what()).find("see p"), std::string::npos) << failure.what();
    }
  }
}

}  // namespace
}  // namespace oncebox::app
