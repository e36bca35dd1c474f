import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.LengthFieldBasedFrameDecoder;
import io.netty.handler.codec.LengthFieldPrepender;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/** Netty over loopback: a server of two event loops, and four clients that wait for each answer. A round is one answer. */
public class Netty {
	static class Echo extends ChannelInboundHandlerAdapter {
		@Override
		public void channelRead(ChannelHandlerContext c, Object m) {
			c.writeAndFlush(m);
		}
	}

	static class Ask extends ChannelInboundHandlerAdapter {
		@Override
		public void channelActive(ChannelHandlerContext c) {
			c.writeAndFlush(Unpooled.buffer(512).writeZero(512));
		}

		@Override
		public void channelRead(ChannelHandlerContext c, Object m) {
			long sum = 0;
			ByteBuf b = (ByteBuf) m;
			for (int i = b.readerIndex(); i < b.writerIndex(); i++) sum += b.getByte(i);
			Rounds.DONE.add(1 + sum);
			c.writeAndFlush(m);
		}
	}

	static <H extends ChannelInboundHandlerAdapter> ChannelInitializer<Channel> frames(java.util.function.Supplier<H> last) {
		return new ChannelInitializer<Channel>() {
			@Override
			protected void initChannel(Channel c) {
				c.pipeline().addLast(new LengthFieldBasedFrameDecoder(1 << 16, 0, 4, 0, 4), new LengthFieldPrepender(4), last.get());
			}
		};
	}

	public static void main(String[] args) throws Exception {
		NioEventLoopGroup servers = new NioEventLoopGroup(2), clients = new NioEventLoopGroup(2);
		Channel server = new ServerBootstrap().group(servers).channel(NioServerSocketChannel.class).childHandler(frames(Echo::new))
			.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0)).sync().channel();
		Bootstrap client = new Bootstrap().group(clients).channel(NioSocketChannel.class).handler(frames(Ask::new));
		for (int i = 0; i < 4; i++) client.connect(server.localAddress()).sync();
		Rounds.report();
		server.closeFuture().sync();
	}
}
