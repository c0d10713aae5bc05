#include "ledger.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace oncebox::crash {

namespace {

Event parse(const std::string& line) {
  std::istringstream in(line);
  Event event;
  int kind = 0;
  std::string kind_name;
  Duration::rep locked_until_ms = 0;
  in >> event.at >> kind >> kind_name >> event.id >> event.word >> event.delivery >>
      locked_until_ms >> event.deliveries >> event.attempt;
  if (!in) throw std::runtime_error("not a line of a ledger: " + line);
  event.kind = static_cast<EventKind>(kind);
  event.locked_until = TimePoint(Duration(locked_until_ms));
  return event;
}

// For people, and for the test that reads a trace of system calls.
std::string_view name_of(EventKind kind) {
  switch (kind) {
    case EventKind::offered:
      return "offered";
    case EventKind::answered:
      return "answered";
    case EventKind::refused:
      return "refused";
    case EventKind::claimed:
      return "claimed";
    case EventKind::extended:
      return "extended";
    case EventKind::settling:
      return "settling";
    case EventKind::settled:
      return "settled";
    case EventKind::begun:
      return "begun";
    case EventKind::ended:
      return "ended";
    case EventKind::noted:
      return "noted";
  }
  return "unknown";
}

}  // namespace

Instant instant_now() {
  // On Linux this is CLOCK_MONOTONIC.
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Ledger::Ledger(const std::string& path)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::runtime_error("cannot open the ledger " + path);
}

Ledger::~Ledger() { close(file_); }

void Ledger::add(Event event) {
  event.at = instant_now();
  const std::string line =
      fmt::format("{} {} {} {} {} {} {} {} {}\n", event.at, static_cast<int>(event.kind),
                  name_of(event.kind), event.id, event.word, event.delivery,
                  event.locked_until.time_since_epoch().count(), event.deliveries, event.attempt);
  // One call for a line: appends of several threads do not mix.
  const ssize_t written = write(file_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) std::abort();
}

std::vector<Event> read_ledger(const std::string& path) {
  std::vector<Event> events;
  std::ifstream in(path);  // A process that was killed early has none.
  std::string line;
  while (std::getline(in, line)) {
    if (in.eof()) break;
    events.push_back(parse(line));
  }
  return events;
}

}  // namespace oncebox::crash
