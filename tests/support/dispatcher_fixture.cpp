#include "dispatcher_fixture.hpp"

#include <algorithm>
#include <sstream>
#include <thread>

namespace oncebox {

bool RecordingLogger::enabled(LogLevel) const noexcept { return true; }

void RecordingLogger::write(LogLevel level, std::string_view text,
                            std::span<const LogField> fields) noexcept {
  std::ostringstream line;
  line << to_string(level) << ' ' << text;
  for (const LogField& field : fields) {
    line << ' ' << field.name() << '=';
    if (const auto* uuid = std::get_if<Uuid>(&field.value())) {
      line << uuid->to_string();
    } else if (const auto* string = std::get_if<std::string_view>(&field.value())) {
      line << *string;
    } else if (const auto* number = std::get_if<std::int64_t>(&field.value())) {
      line << *number;
    }
  }
  lines_.change([&](auto& lines) { lines.push_back(line.str()); });
}

bool RecordingLogger::wait_for(std::string_view beginning) const {
  const auto begins = [&](const std::string& line) { return line.starts_with(beginning); };
  return lines_.wait(
      [&](const auto& lines) { return std::any_of(lines.begin(), lines.end(), begins); });
}

bool RecordingLogger::contains(std::string_view text) const {
  return all().find(text) != std::string::npos;
}

std::string RecordingLogger::all() const {
  std::string all;
  for (const std::string& line : lines_.get()) all += line + "\n";
  return all;
}

StoreProbe::StoreProbe(QueueStore& below)
    : faulty_(below, [this](std::string_view call) { return on_call(call); }) {}

void StoreProbe::set_plan(std::function<testing::Fault(std::string_view call)> plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
}

testing::Fault StoreProbe::on_call(std::string_view call) {
  counts_.change([&](Counts& counts) {
    for (auto& [name, count] : counts) {
      if (name == call) return void(++count);
    }
    counts.emplace_back(call, 1);
  });
  std::function<testing::Fault(std::string_view)> plan;
  {
    const std::lock_guard lock(mutex_);
    plan = plan_;
  }
  return plan ? plan(call) : testing::Fault::none;
}

int StoreProbe::count_of(const Counts& counts, const std::string& call) {
  for (const auto& [name, count] : counts) {
    if (name == call) return count;
  }
  return 0;
}

int StoreProbe::calls(const std::string& call) const { return count_of(counts_.get(), call); }

int StoreProbe::calls() const {
  int sum = 0;
  for (const auto& [name, count] : counts_.get()) sum += count;
  return sum;
}

bool StoreProbe::wait_for_calls(const std::string& call, int at_least) const {
  return counts_.wait([&](const Counts& counts) { return count_of(counts, call) >= at_least; });
}

Message DispatcherTest::message(const std::string& id, const std::string& topic) {
  return {.key = {"shop", id}, .topic = topic, .payload = "s3cret payload of " + id};
}

void DispatcherTest::enqueue_many(std::size_t count, const std::string& topic) {
  std::vector<Message> messages;
  messages.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(message("m" + std::to_string(i), topic));
  }
  queue().enqueue(messages);
}

MessageRecord DispatcherTest::record(const std::string& id) {
  const auto found = queue().find(MessageKey{"shop", id});
  if (!found) throw Error(ErrorCode::not_found, "no message " + id);
  return *found;
}

// There is nothing to be told of a settlement by: the store is asked, between yields.
bool DispatcherTest::wait_for_status(const std::string& id, Status status) {
  return eventually([&] { return record(id).status == status; });
}

DispatcherTest::Ending DispatcherTest::make_dispatcher(const DispatcherOptions& options) {
  dispatcher_ = std::make_unique<Dispatcher>(probe_.store(), handlers_, options,
                                             Surroundings{logger_, *observer_, clock_});
  return Ending(*this);
}

DispatcherTest::Ending DispatcherTest::start(const DispatcherOptions& options) {
  dispatcher_ = std::make_unique<Dispatcher>(probe_.store(), handlers_, options,
                                             Surroundings{logger_, *observer_, clock_});
  dispatcher_->start();
  return Ending(*this);
}

void DispatcherTest::advance(Duration by) {
  clock_.advance(by);
  dispatcher_->wake();
}

}  // namespace oncebox
