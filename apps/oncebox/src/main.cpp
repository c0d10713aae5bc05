#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "command_line.hpp"
#include "commands/commands.hpp"
#include "failure.hpp"
#include "help.hpp"
#include "oncebox/error.hpp"
#include "output.hpp"
#include "printable.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace oncebox::app {
namespace {

ExitCode run_command(int argc, char** argv, Console& console) {
  const Command program = oncebox_command();
  const Invocation invocation = parse_command_line(program, argc, argv);
  if (invocation.kind == Invocation::Kind::help) {
    console.out.write(help_text(invocation.path, *invocation.command, console.out.columns()));
    console.out.flush();
    return ExitCode::ok;
  }
  const ExitCode code = invocation.command->run(console);
  console.out.flush();
  return code;
}

/// Says what went wrong. What a command has printed so far comes first.
ExitCode complain(Console& console, ExitCode code, std::string_view text) {
  try {
    console.out.flush();
    console.err.line(
        fmt::format("{} {}", console.err.styled("oncebox:", Style::red), printable_lines(text)));
    console.err.flush();
  } catch (...) {
    // There is nobody to tell.
  }
  return code;
}

/// The one border at which everything that is thrown ends.
ExitCode run_and_report(int argc, char** argv, Console& console) {
  try {
    const ExitCode code = run_command(argc, argv, console);
    console.err.flush();
    return code;
  } catch (const OutputClosed&) {
    return ExitCode::ok;
  } catch (const Failure& failure) {
    return complain(console, failure.code(), failure.what());
  } catch (const Error& error) {
    return complain(console, exit_code_of(error.code()), error.what());
  } catch (const std::exception& error) {
    return complain(console, ExitCode::internal, error.what());
  }
}

/// The allocator maps large buffers one by one and gives each back to the system when it is free.
/// By itself glibc raises "large" up to 32 MiB as such buffers are freed; those of the server, some
/// MiB each, then stay as holes in the heaps of its threads. A fixed threshold keeps them out of
/// the heaps: it halved what the process kept under many large bodies and answers. It belongs to
/// the program, because the allocator is that of the whole process.
void keep_large_buffers_out_of_heaps() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
#endif
}

}  // namespace
}  // namespace oncebox::app

int main(int argc, char** argv) {
  using namespace oncebox::app;
  keep_large_buffers_out_of_heaps();
  // A closed pipe or connection is an error of the call that meets it, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  Output out(STDOUT_FILENO);
  Output err(STDERR_FILENO);
  Console console{out, err};
  return static_cast<int>(run_and_report(argc, argv, console));
}
