#include "table.hpp"

#include <algorithm>
#include <numeric>

#include "printable.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 8;

}  // namespace

void Table::add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = printable(cell.text);
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::widths(const Output& out) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i].text));
    widths.push_back(width);
  }
  if (!out.is_terminal()) return widths;

  const std::size_t room = out.columns();
  std::size_t total =
      std::accumulate(widths.begin(), widths.end(), std::size_t{0}) + kGap * (columns_.size() - 1);
  // The widest gives way first.
  while (total > room) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].shrinks == Shrinks::yes && widths[i] > kNarrowest &&
          (widest == nullptr || widths[i] > *widest)) {
        widest = &widths[i];
      }
    }
    if (widest == nullptr) break;
    --*widest;
    --total;
  }
  return widths;
}

void Table::print(Output& out) const {
  const std::vector<std::size_t> widths = this->widths(out);
  const auto print_row = [&](const std::vector<Cell>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string text = fitted(row[i].text, widths[i]);
      const std::string padding(widths[i] - std::min(widths[i], display_width(text)), ' ');
      const bool last = i + 1 == row.size();
      if (columns_[i].align == Align::right) line += padding;
      line += out.styled(text, row[i].style);
      if (columns_[i].align == Align::left && !last) line += padding;
      if (!last) line.append(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.line(line);
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.push_back({column.title, Style::bold});
  print_row(titles);
  for (const auto& row : rows_) print_row(row);
}

void Details::add(std::string_view name, std::string_view value, Style style) {
  lines_.push_back({std::string(name), {printable(value), style}});
}

void Details::print(Output& out) const {
  std::size_t width = 0;
  for (const Line& line : lines_) width = std::max(width, line.name.size());
  for (const Line& line : lines_) {
    const std::string padding(width - line.name.size() + kGap, ' ');
    out.line(out.styled(line.name, Style::dim) + padding +
             out.styled(line.value.text, line.value.style));
  }
}

}  // namespace oncebox::app
