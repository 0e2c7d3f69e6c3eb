/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out/screen.h"

#include <curses.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#include "cli/exit_status.h"
#include "cli/out/say.h"
#include "cli/tenant/runtime.h"
#include "node/figures.h"
#include "node/tenants.h"

#define REFRESH_MS 1000

static volatile sig_atomic_t ended;

static void screen_note_signal(int sig)
{
	ended = sig;
}

bool screen_usable(void)
{
	int err;

	return setupterm(NULL, STDOUT_FILENO, &err) == OK;
}

static int screen_colour(enum frame_level level)
{
	return has_colors() ? COLOR_PAIR(1 + (int)level) : 0;
}

static void screen_draw_bar(int y, const struct frame_line *line, int width)
{
	int fill = line->bar_permille * width / 1000;

	/* A tenant that uses anything shows something. */
	if (!fill && line->bar_permille)
		fill = 1;
	attrset(A_REVERSE | screen_colour(line->level));
	mvhline(y, 0, ' ', fill);
	attrset(A_DIM);
	mvhline(y, fill, ACS_CKBOARD, width - fill);
	attrset(A_NORMAL);
}

static void screen_draw(const struct frame *f, bool processes)
{
	int height, width;

	getmaxyx(stdscr, height, width);
	erase();
	for (int i = 0; i < f->n && i < height - 1; i++) {
		const struct frame_line *line = &f->line[i];

		if (line->bar_permille >= 0) {
			screen_draw_bar(i, line, width);
			continue;
		}
		attrset(line->strong ? A_BOLD : A_NORMAL);
		mvaddnstr(i, 0, line->text, width);
		attrset(A_NORMAL);
	}
	attrset(A_REVERSE);
	mvhline(height - 1, 0, ' ', width);
	mvaddnstr(height - 1, 0,
		  processes ? " m memory  c compute  n name  r refusals  p all tenants  q quit"
			    : " m memory  c compute  n name  r refusals  up/down choose  "
			      "p processes  q quit",
		  width);
	attrset(A_NORMAL);
	refresh();
}

/* false: it was the key that ends. */
static bool screen_handle_key(int key, struct frame_state *state)
{
	switch (key) {
	case 'q':
		return false;
	case 'm':
		state->sort = FRAME_BY_MEMORY;
		break;
	case 'c':
		state->sort = FRAME_BY_COMPUTE;
		break;
	case 'n':
		state->sort = FRAME_BY_NAME;
		break;
	case 'r':
		state->sort = FRAME_BY_REFUSALS;
		break;
	case KEY_UP:
	case 'k':
		state->move = -1;
		break;
	case KEY_DOWN:
	case 'j':
		state->move = 1;
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
	case 'p':
		state->processes = !state->processes;
		break;
	case 'L' & 31: /* control-L: draw all anew */
		clearok(stdscr, TRUE);
		break;
	case 27: /* escape */
		state->processes = false;
		break;
	}
	return true;
}

static void screen_start(void)
{
	initscr();
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	set_escdelay(50);
	timeout(REFRESH_MS);
	if (has_colors()) {
		start_color();
		use_default_colors();
		init_pair(1 + FRAME_CALM, COLOR_GREEN, -1);
		init_pair(1 + FRAME_HIGH, COLOR_YELLOW, -1);
		init_pair(1 + FRAME_FULL, COLOR_RED, -1);
	}
}

int screen_run(struct frame_state *state)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = screen_note_signal};
	static struct frame frame;
	struct tenants tenants;
	bool go_on = true;
	int r = 0;

	setlocale(LC_ALL, "");
	/* The terminal is put back whatever ends the view. */
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, NULL);
	screen_start();
	while (go_on && !ended) {
		if (runtime_load_tenants(&tenants) < 0) {
			r = EXIT_ALLOT;
			break;
		}
		figures_apply(&tenants);
		frame_build(&tenants, state, COLS, LINES, &frame);
		tenants_free(&tenants);
		screen_draw(&frame, state->processes);
		go_on = screen_handle_key(getch(), state);
	}
	endwin();
	if (ended) {
		signal(ended, SIG_DFL);
		raise(ended);
	}
	return r;
}
